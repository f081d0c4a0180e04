// SPDX-License-Identifier: Apache-2.0
#include "tools/brickctl/scratch_blocks.h"

#include <gtest/gtest.h>

#include "tests/support/brick_contract.h"

namespace brickfs {
namespace {

using testing::blocks;

class Scratch : public ::testing::Test {
 protected:
  void SetUp() override {
    service_ = testing::make_embedded_memory(16, 0, {});
    brick_ = service_->connect();
    OpenRequest request;
    request.client = ClientId{1};
    ASSERT_TRUE(brick_->open(request, nullptr).ok());
    ASSERT_TRUE(brick_->alloc(blocks(0, 3)).ok());  // somebody's file system
  }
  std::vector<BlockRange> listed() { return brick_->list(BlockAddress{0})->extents; }

  std::unique_ptr<testing::TestBrick> service_;
  std::unique_ptr<Brick> brick_;
};

TEST_F(Scratch, BlocksComeAndGoAndOthersStay) {
  auto scratch = ScratchBlocks::take(*brick_, 4);
  ASSERT_TRUE(scratch.ok());
  EXPECT_EQ(listed(), (std::vector<BlockRange>{blocks(0, 3), {kScratchBegin, 4}}));
  EXPECT_TRUE(brick_->map(scratch->range(), Access::kReadWrite).ok());
  ASSERT_TRUE(scratch->give_back().ok());
  EXPECT_EQ(listed(), std::vector{blocks(0, 3)});
}

TEST_F(Scratch, WhatAKilledOneLeftIsFreed) {
  ASSERT_TRUE(brick_->alloc({block_after(kScratchBegin, 2), 5}).ok());
  ASSERT_TRUE(brick_->alloc({kScratchEnd, 1}).ok());  // another's
  const auto scratch = ScratchBlocks::take(*brick_, 4);
  ASSERT_TRUE(scratch.ok());
  EXPECT_EQ(listed(), (std::vector<BlockRange>{blocks(0, 3), {kScratchBegin, 4}, {kScratchEnd, 1}}));
}

TEST_F(Scratch, AFullBrickIsLeftAsItWas) {
  EXPECT_EQ(ScratchBlocks::take(*brick_, 14).code(), ENOSPC);
  EXPECT_EQ(listed(), std::vector{blocks(0, 3)});
}

}  // namespace
}  // namespace brickfs
