// SPDX-License-Identifier: Apache-2.0
// A shared volume for tests: a coordinator that may die and be followed by another, and members, over TCP on this host.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "fs/shared/coordinator.h"
#include "fs/shared/leased_files.h"
#include "fs/shared/member_files.h"
#include "tests/support/mounted_volume.h"
#include "tests/support/sharing_bed.h"

namespace brickfs::shared {

inline LocalSlice slice_of_text(std::string& text) {
  return {reinterpret_cast<std::byte*>(text.data()), static_cast<uint32_t>(text.size()), 0};
}

inline Status write_text(FileOperations& files, Ino ino, uint64_t offset, std::string text, bool append = false) {
  const LocalSlice from = slice_of_text(text);
  const auto written = files.write(ino, offset, std::span(&from, 1), append, nullptr);
  if (!written.ok()) return written.error();
  EXPECT_EQ(*written, text.size());
  return {};
}

inline std::string read_text(FileOperations& files, Ino ino, uint64_t offset, size_t length) {
  std::string text(length, 'x');
  const LocalSlice into = slice_of_text(text);
  const auto got = files.read(ino, offset, std::span(&into, 1));
  EXPECT_TRUE(got.ok());
  text.resize(got.ok() ? *got : 0);
  return text;
}

class SharedVolume : public ::testing::Test {
 protected:
  void share(std::chrono::milliseconds lease = std::chrono::seconds(60), OwnKernel* kernel = nullptr) {
    auto coordinator = Coordinator::listen("127.0.0.1", 0, "home", secret_of(kTestSecret), lease);
    ASSERT_TRUE(coordinator.ok());
    coordinator_ = std::move(*coordinator);
    own_ = std::make_unique<LeasedFiles>(*volume_, coordinator_->leases());
    coordinator_->serve({*own_, &*volume_, client_, kernel}, grace_);
  }
  CoordinatorLink::Config config(std::string_view secret = kTestSecret) {
    CoordinatorLink::Config config = member_config(coordinator_->port(), ClientId{++clients_});
    config.secret = secret_of(secret);
    config.seek = [this](const CoordinatorLink::Lost&) -> Result<CoordinatorLink::Sought> {
      using Sought = CoordinatorLink::Sought;
      const uint16_t port = next_port_;
      if (port != 0) return Sought{Sought::Kind::kMoved, {"127.0.0.1", port}};
      return Sought{holds_ ? Sought::Kind::kHolds : Sought::Kind::kEnded, {}, "it has ended"};
    };
    return config;
  }
  std::unique_ptr<MemberFiles> join(CoordinatorLink** link = nullptr) {
    std::string why;
    auto joined = CoordinatorLink::join(config(), &why);
    EXPECT_TRUE(joined.ok()) << why;
    if (!joined.ok()) return nullptr;
    if (link != nullptr) *link = joined->get();
    return std::make_unique<MemberFiles>(std::move(*joined), nullptr, false, false);
  }

  // The coordinator dies with its file system; another one takes the volume.
  void take_over() {
    coordinator_->stop();
    volume_.crash_and_mount();
    client_ = ClientId{raw_of(client_) + 1};
    share();
    next_port_ = coordinator_->port();
  }
  static uint64_t raw_of(ClientId client) { return static_cast<uint64_t>(client); }

  MountedVolume volume_{MountedVolume::Options{.mount = {.shared = true}}};
  ClientId client_{7};
  std::chrono::milliseconds grace_ = std::chrono::seconds(30);
  std::atomic<uint16_t> next_port_{0};
  std::unique_ptr<LeasedFiles> own_;  // what the coordinator's programs go by
  std::unique_ptr<Coordinator> coordinator_;
  uint64_t clients_ = 100;
  std::atomic<bool> holds_{true};
};

}  // namespace brickfs::shared
