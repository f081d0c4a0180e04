// SPDX-License-Identifier: Apache-2.0
// The data path over a queue pair that does as it is told.
#include "transport/onesided/data_path.h"

#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "tests/support/block_numbers.h"

namespace brickfs::onesided {
namespace {

using testing::blocks;

class PlainDevice final : public MemoryDevice {
 public:
  explicit PlainDevice(size_t number) : MemoryDevice({"plain", 4, kMiB, false}, number) {}
  Result<LocalRegion> register_memory(std::span<std::byte>) const override { return LocalRegion{1, nullptr}; }
};

class NoEvents final : public CompletionEvents {
 public:
  int fd() const override { return -1; }
  void take(const std::function<void(size_t)>&) override {}
};

// Completes what was posted once it is told to.
class ToldPair final : public QueuePair {
 public:
  ToldPair(uint32_t number, MemoryDevice& device) : QueuePair(number, device, std::make_shared<NoEvents>(), 0) {}
  void complete_all() { completes_ = true; }

  Result<size_t> post(std::span<const Part> parts) override {
    if (failed()) return Error(ENOTCONN, "failed");
    MutexLock lock(mutex_);
    parts_.insert(parts_.end(), parts.begin(), parts.end());
    posted_.fetch_add(parts.size());
    return parts.size();
  }
  void poll(Parts& done) override {
    if (!completes_) return;
    MutexLock lock(mutex_);
    completed_.fetch_add(parts_.size());
    done.insert(done.end(), parts_.begin(), parts_.end());
    parts_.clear();
  }
  void arm() override {}
  void fail() override { failed_ = true; }
  Parts drain(Parts&) override {
    MutexLock lock(mutex_);
    return std::exchange(parts_, {});
  }

 private:
  std::atomic<bool> completes_{false};
  Mutex mutex_;
  Parts parts_ ABSL_GUARDED_BY(mutex_);
};

class DataPathTest : public ::testing::Test {
 protected:
  DataPathTest() {
    Handle handle{blocks(0), Access::kReadWrite, 1, 7};
    calls::QueuePairKeys keys{};
    keys[0] = 9;
    handle_ = handles_.add({{handle}, {keys}})->handles.front();
    auto pair = std::make_unique<ToldPair>(0, device_);
    pair_ = pair.get();
    EXPECT_TRUE(path_.add(std::move(pair)).ok());
  }
  ~DataPathTest() override { path_.give_up(); }
  void post(Batch& batch) {
    batch.transfers.push_back({Direction::kRead, handle_, 0, {&slice_, 1}});
    path_.submit(batch);
  }

  LocalMemory memory_;
  HandleMap handles_;
  PlainDevice device_{0};
  DataPath path_{memory_, handles_, [] {}};
  ToldPair* pair_ = nullptr;
  Handle handle_;
  std::byte bytes_[64];
  LocalSlice slice_{bytes_, sizeof(bytes_), 0};
};

TEST_F(DataPathTest, TheFirstTransferOfAQueuePairHasTime) {
  Batch batch;
  post(batch);
  path_.check_progress();  // it has been under way for a moment
  EXPECT_FALSE(pair_->failed());
  pair_->complete_all();
  path_.wait(batch);
  EXPECT_TRUE(batch.status().ok());
}

TEST_F(DataPathTest, WhatIsUnderWayEndsWhenTheSessionIsLost) {
  Batch batch;
  post(batch);
  EXPECT_FALSE(batch.complete());
  path_.give_up();
  path_.wait(batch);
  EXPECT_EQ(batch.status().code(), ENOTCONN);
}

}  // namespace
}  // namespace brickfs::onesided
