// SPDX-License-Identifier: Apache-2.0
// A real brick in this process that can be killed and started again under a client, behind a connection with faults.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <memory>
#include <string>

#include "server/service/brick_service.h"
#include "server/service/embedded_brick.h"
#include "tests/support/eventually.h"
#include "tests/support/faulty_brick.h"
#include "transport/base/mutex.h"

namespace brickfs {

class RestartingBrick {
 public:
  // store_blocks 0: volatile. `volume`: one that it has beside the default one.
  RestartingBrick(uint64_t memory_blocks, uint64_t store_blocks, const std::string& volume = {}) {
    if (!volume.empty()) config_.volumes.push_back({volume, std::nullopt});
    std::string name = (std::filesystem::temp_directory_path() / "brickfs-restart.XXXXXX").string();
    EXPECT_NE(mkdtemp(name.data()), nullptr);
    directory_ = name;
    config_.memory_bytes = memory_blocks * kBlockBytes;
    if (store_blocks > 0) {
      config_.store_path = directory_ / "store";
      config_.store_bytes = store_blocks * kBlockBytes;
    }
    {
      MutexLock lock(mutex_);
      start();
    }
    faults_ = std::make_shared<BrickFaults>([this]() -> std::unique_ptr<Brick> {
      const auto running = service();
      return running != nullptr ? make_embedded_brick(running) : nullptr;  // it could not be started again
    });
  }
  ~RestartingBrick() {
    {
      MutexLock lock(mutex_);
      service_.reset();
    }
    std::filesystem::remove_all(directory_);
  }

  BrickFaults& faults() { return *faults_; }
  std::unique_ptr<Brick> make_brick() { return faults_->make_brick(); }
  // For who asks it past its client. It is not stopped before he has let it go.
  std::shared_ptr<BrickService> service() {
    MutexLock lock(mutex_);
    return service_;
  }

  // Killed and started again: what is in memory only is gone.
  void restart() {
    faults_->lose([this] { replace_store(config_.store_path); });
  }
  // The same at the nth call from now (1: the next), which is not carried out. While there is no client.
  void restart_at(uint64_t nth) {
    faults_->plan(
        {{faults_->calls() + nth - 1, PlannedFault::Kind::kRestarted}}, [this] { replace_store(config_.store_path); },
        nullptr, nullptr);
  }
  void restart_without_volumes() {
    config_.volumes.clear();
    restart();
  }
  // From now on each commit is remembered, and restart_from_commit() brings the brick back as the last one left it.
  void remember_commits() {
    copy(config_.store_path, directory_ / "committed");
    faults_->set_after_commit([this] { copy(config_.store_path, directory_ / "committed"); });
  }
  void restart_from_commit() {
    faults_->lose([this] { replace_store(directory_ / "committed"); });
  }

  // Stopped in order and started again; in between its store was copied, or its older copy put back.
  void copy_store() {
    faults_->lose([this] { restart_in_order(config_.store_path, directory_ / "copy"); });
  }
  void put_store_back() {
    faults_->lose([this] { restart_in_order(directory_ / "copy", config_.store_path); });
  }
  // The copy is put back, and what it replaces is the copy from now on.
  void swap_stores() {
    faults_->lose([this] {
      MutexLock lock(mutex_);
      stop();
      std::filesystem::rename(config_.store_path, directory_ / "newer");
      std::filesystem::rename(directory_ / "copy", config_.store_path);
      std::filesystem::rename(directory_ / "newer", directory_ / "copy");
      config_.store_bytes = 0;
      start();
    });
  }
  // Its store as it is at this moment, while the brick runs.
  void copy_running_store() { copy(config_.store_path, directory_ / "copy"); }

 private:
  void restart_in_order(const std::filesystem::path& from, const std::filesystem::path& to) {
    MutexLock lock(mutex_);
    stop();
    copy(from, to);
    config_.store_bytes = 0;
    start();
  }
  static void copy(const std::filesystem::path& from, const std::filesystem::path& to) {
    std::filesystem::copy_file(from, to, std::filesystem::copy_options::overwrite_existing);
  }
  void replace_store(const std::filesystem::path& from) {
    MutexLock lock(mutex_);
    if (!config_.store_path.empty()) copy(from, directory_ / "after");
    stop();  // may write to its store, as a clean stop does
    if (!config_.store_path.empty()) std::filesystem::rename(directory_ / "after", config_.store_path);
    if (!config_.store_path.empty()) config_.store_bytes = 0;
    start();
  }
  void stop() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const std::weak_ptr<BrickService> stopping = service_;
    service_.reset();
    EXPECT_TRUE(testing::eventually([&] { return stopping.expired(); })) << "somebody keeps it";
  }
  void start() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    std::string why;
    auto service = BrickService::open(config_, &why);
    ASSERT_TRUE(service.ok()) << why;
    service_ = std::move(*service);
  }

  BrickConfig config_;
  std::filesystem::path directory_;
  Mutex mutex_;  // behind the client's connection
  std::shared_ptr<BrickService> service_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<BrickFaults> faults_;
};

}  // namespace brickfs
