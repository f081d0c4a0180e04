// SPDX-License-Identifier: Apache-2.0
// A real brick in this process, and clients of its default volume that come and go as processes would.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <atomic>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include "server/service/brick_service.h"
#include "server/service/embedded_brick.h"
#include "transport/volume/volume_set.h"

namespace brickfs {

class EmbeddedVolume {
 public:
  // Memory only.
  explicit EmbeddedVolume(uint64_t memory_bytes) {
    config_.memory_bytes = memory_bytes;
    start();
  }
  // With a store in a directory of its own.
  EmbeddedVolume(uint64_t memory_bytes, uint64_t store_bytes) {
    std::string name = (std::filesystem::temp_directory_path() / "brickfs-volume.XXXXXX").string();
    EXPECT_NE(mkdtemp(name.data()), nullptr);
    directory_ = name;
    config_.memory_bytes = memory_bytes;
    config_.store_path = directory_ / "store";
    config_.store_bytes = store_bytes;
    start();
  }
  ~EmbeddedVolume() {
    service_.reset();
    if (!directory_.empty()) std::filesystem::remove_all(directory_);
  }
  EmbeddedVolume(const EmbeddedVolume&) = delete;
  EmbeddedVolume& operator=(const EmbeddedVolume&) = delete;

  std::unique_ptr<Brick> brick() { return make_embedded_brick(service_); }
  Result<std::unique_ptr<VolumeSet>> try_open(OpenMode mode = OpenMode::kExclusive) { return try_open(brick(), mode); }
  // `brick`: one of brick()'s, perhaps in a wrapper.
  Result<std::unique_ptr<VolumeSet>> try_open(std::unique_ptr<Brick> brick, OpenMode mode = OpenMode::kExclusive) {
    static std::atomic<uint64_t> last_client{0};
    VolumeOptions options;
    options.open.client = ClientId{++last_client};
    options.open.client_name = "test";
    options.open.mode = mode;
    options.embedded = true;
    Holder holder;
    return VolumeSet::open(std::move(brick), std::move(options), &holder);
  }
  std::unique_ptr<VolumeSet> open(OpenMode mode = OpenMode::kExclusive) {
    auto volume = try_open(mode);
    EXPECT_TRUE(volume.ok()) << volume.error().what();
    return volume.ok() ? std::move(*volume) : nullptr;
  }

  // The brick's process is killed and started again; no client may be there. What is in memory only is lost.
  void crash_brick() {
    const std::filesystem::path after = directory_ / "after";
    std::filesystem::copy_file(config_.store_path, after);
    service_.reset();
    std::filesystem::rename(after, config_.store_path);
    config_.store_bytes = 0;
    start();
  }

 private:
  void start() {
    std::string why;
    auto service = BrickService::open(config_, &why);
    ASSERT_TRUE(service.ok()) << why;
    service_ = std::move(*service);
  }

  BrickConfig config_;
  std::filesystem::path directory_;  // empty: no store
  std::shared_ptr<BrickService> service_;
};

}  // namespace brickfs
