// SPDX-License-Identifier: Apache-2.0
// A brick whose store's disk is smaller than the store; and one whose disk fails.
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <functional>
#include <semaphore>
#include <thread>

#include "server/service/embedded_brick.h"
#include "tests/support/brick_contract.h"
#include "tests/support/crash_device.h"
#include "transport/base/mutex.h"
#include "transport/brick/store_trouble.h"

namespace brickfs::testing {
namespace {

constexpr uint64_t kDiskBlocks = 8;
constexpr uint64_t kRoom = 3;  // blocks for which the disk has room

// A crash device for several threads, which says what is about to happen, and what has not.
class WatchedDevice final : public StoreDevice {
 private:
  template <typename Call, typename... Arguments>
  auto locked(Call call, Arguments... arguments) const {
    MutexLock lock(mutex_);
    return (device_.*call)(arguments...);
  }

 public:
  struct Watch {
    std::function<void()> before_punch = [] {};
    std::function<void()> after_refusal = [] {};  // of room
  };
  WatchedDevice(CrashDisk& disk, const Watch& watch) : device_(disk), watch_(watch) {}

  Result<uint64_t> size_bytes() const override { return locked(&CrashDevice::size_bytes); }
  Status read(uint64_t offset, std::span<std::byte> into) const override {
    return locked(&CrashDevice::read, offset, into);
  }
  Status write(uint64_t offset, std::span<const std::byte> from) override {
    return locked(&CrashDevice::write, offset, from);
  }
  Status reserve(uint64_t offset, uint64_t length_bytes) override {
    const Status reserved = locked(&CrashDevice::reserve, offset, length_bytes);
    if (!reserved.ok()) watch_.after_refusal();
    return reserved;
  }
  Status punch(uint64_t offset, uint64_t length_bytes) override {
    watch_.before_punch();
    return locked(&CrashDevice::punch, offset, length_bytes);
  }
  Status grow(uint64_t size_bytes) override { return locked(&CrashDevice::grow, size_bytes); }
  Status sync() override { return locked(&CrashDevice::sync); }
  void forget_cache() override { locked(&CrashDevice::forget_cache); }
  uint64_t room_bytes() const override { return locked(&CrashDevice::room_bytes); }

 private:
  mutable Mutex mutex_;
  mutable CrashDevice device_;
  const Watch& watch_;
};

class FullDisk : public ::testing::Test {
 protected:
  void start() { start(std::make_unique<CrashDevice>(disk_)); }
  void start(std::unique_ptr<StoreDevice> device) {
    BrickConfig config;
    config.memory_bytes = kDiskBlocks * kBlockBytes;
    config.store_path = "disk";
    config.store_bytes = kDiskBlocks * kBlockBytes;
    std::string why;
    auto service = BrickService::open(config, std::move(device), &why);
    ASSERT_TRUE(service.ok()) << why;
    brick_ = make_embedded_brick(std::shared_ptr<BrickService>(*std::move(service)));
    OpenRequest request;
    request.client = ClientId{1};
    ASSERT_TRUE(brick_->open(request, nullptr).ok());
  }
  std::string_view trouble() { return store_trouble(brick_->stat()->medium); }
  uint64_t allocatable() { return brick_->stat()->allocatable_blocks; }
  Status commit_block(uint64_t number) {
    const CommitRange range{number * kBlockBytes, kBlockBytes, false};
    return brick_->commit({&range, 1});
  }

  CrashDisk disk_{DiskImage()};
  std::unique_ptr<Brick> brick_;
};

TEST_F(FullDisk, AnAllocSaysSoAndNothingElse) {
  disk_.room_bytes = kRoom * kBlockBytes + kMiB;
  start();
  EXPECT_EQ(allocatable(), kRoom);
  ASSERT_TRUE(brick_->alloc(blocks(0, kRoom)).ok());
  EXPECT_EQ(allocatable(), 0u);
  EXPECT_EQ(trouble(), kStoreDiskFull);
  EXPECT_EQ(brick_->alloc(blocks(kRoom)).code(), ENOSPC);
  EXPECT_EQ(allocatable(), 0u);
  EXPECT_EQ(brick_->alloc(blocks(kRoom, 3)).code(), ENOSPC);
  EXPECT_EQ(allocatable(), 0u);
  for (uint64_t number = 0; number < kRoom; ++number) {
    const auto handles = brick_->map(blocks(number), Access::kReadWrite);
    ASSERT_TRUE(write(*brick_, handles->front(), 0, pattern(kBlockBytes, 1)).ok());
    EXPECT_TRUE(commit_block(number).ok());
  }
}

TEST_F(FullDisk, WhatIsFreedGivesItsRoomToTheNext) {
  disk_.room_bytes = kRoom * kBlockBytes + kMiB;
  start();
  ASSERT_TRUE(brick_->alloc(blocks(0, kRoom)).ok());
  ASSERT_TRUE(brick_->free(blocks(0)).ok());
  EXPECT_EQ(allocatable(), 1u);
  EXPECT_TRUE(brick_->alloc(blocks(kRoom)).ok());  // without a commit in between
  EXPECT_EQ(brick_->alloc(blocks(0)).code(), ENOSPC);
  disk_.room_bytes += kBlockBytes;  // somebody else's file has gone
  EXPECT_TRUE(brick_->alloc(blocks(0)).ok());
  EXPECT_EQ(trouble(), kStoreDiskFull);
  disk_.room_bytes += kDiskBlocks * kBlockBytes;
  EXPECT_EQ(trouble(), "");
}

TEST_F(FullDisk, AnAllocGivesBackWhatItHadReserved) {
  disk_.room_bytes = kRoom * kBlockBytes + kMiB;
  start();
  EXPECT_EQ(brick_->alloc(blocks(0, kRoom + 1)).code(), ENOSPC);
  const uint64_t syncs = disk_.syncs();
  EXPECT_EQ(allocatable(), kRoom);
  EXPECT_TRUE(brick_->alloc(blocks(0, kRoom)).ok());
  EXPECT_EQ(disk_.syncs(), syncs);
}

TEST_F(FullDisk, ManyFreedBlocksAreClearedByRuns) {
  start();
  ASSERT_TRUE(brick_->alloc(blocks(0, kDiskBlocks)).ok());
  ASSERT_TRUE(brick_->free(blocks(0, 4)).ok());
  ASSERT_TRUE(brick_->free(blocks(6, 2)).ok());
  const size_t before = disk_.log().size();
  ASSERT_TRUE(brick_->commit({}).ok());
  EXPECT_LE(disk_.log().size() - before, 2u + 2u);  // a sync begins and ends
  EXPECT_TRUE(brick_->alloc(blocks(0, 4)).ok());
}

// Of what a commit is clearing, the room is neither in use nor there yet.
TEST_F(FullDisk, AnAllocWaitsForWhatACommitGivesBack) {
  disk_.room_bytes = kRoom * kBlockBytes + kMiB;
  std::binary_semaphore clears(0);
  std::binary_semaphore refused(0);
  std::atomic<bool> watches = false;
  const WatchedDevice::Watch watch{.before_punch =
                                       [&] {
                                         if (!watches.exchange(false)) return;
                                         clears.release();
                                         refused.acquire();
                                       },
                                   .after_refusal = [&] { refused.release(); }};
  start(std::make_unique<WatchedDevice>(disk_, watch));
  ASSERT_TRUE(brick_->alloc(blocks(0, kRoom)).ok());
  ASSERT_TRUE(brick_->free(blocks(0)).ok());
  watches = true;
  std::thread commits([&] { EXPECT_TRUE(brick_->commit({}).ok()); });
  clears.acquire();
  EXPECT_EQ(allocatable(), 1u);
  EXPECT_TRUE(brick_->alloc(blocks(kRoom)).ok());
  commits.join();
  EXPECT_EQ(allocatable(), 0u);
  brick_.reset();
}

// Nothing can be told of what was written last: so nothing is said to be durable, and nothing is read that may be
// older.
TEST_F(FullDisk, ADiskThatFailsIsNotBelievedAgain) {
  start();
  ASSERT_TRUE(brick_->alloc(blocks(0, 2)).ok());
  const auto handles = brick_->map(blocks(0), Access::kReadWrite);
  ASSERT_TRUE(write(*brick_, handles->front(), 0, pattern(kBlockBytes, 1)).ok());
  disk_.fails_sync = disk_.syncs() + 1;  // the table's sync goes well
  EXPECT_EQ(commit_block(0).code(), EIO);
  EXPECT_EQ(trouble(), kStoreFailed);
  EXPECT_EQ(commit_block(0).code(), EIO);
  EXPECT_EQ(brick_->commit({}).code(), EIO);
  EXPECT_EQ(brick_->alloc(blocks(5)).code(), EIO);
  EXPECT_EQ(brick_->free(blocks(1)).code(), EIO);
  disk_.cut();
  brick_.reset();
  disk_.revive();
  start();
  EXPECT_EQ(trouble(), "");
  EXPECT_TRUE(commit_block(0).ok());
}

}  // namespace
}  // namespace brickfs::testing
