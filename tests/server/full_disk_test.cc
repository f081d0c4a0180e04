// SPDX-License-Identifier: Apache-2.0
// A brick whose store's disk is smaller than the store; and one whose disk fails.
#include <gtest/gtest.h>

#include <cerrno>

#include "server/service/embedded_brick.h"
#include "tests/support/brick_contract.h"
#include "tests/support/crash_device.h"
#include "transport/brick/store_trouble.h"

namespace brickfs::testing {
namespace {

constexpr uint64_t kDiskBlocks = 8;
constexpr uint64_t kRoom = 3;  // blocks for which the disk has room

class FullDisk : public ::testing::Test {
 protected:
  void start() {
    BrickConfig config;
    config.memory_bytes = kDiskBlocks * kBlockBytes;
    config.store_path = "disk";
    config.store_bytes = kDiskBlocks * kBlockBytes;
    std::string why;
    auto service = BrickService::open(config, std::make_unique<CrashDevice>(disk_), &why);
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
