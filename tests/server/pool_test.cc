// SPDX-License-Identifier: Apache-2.0
#include "server/pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

namespace brickfs {
namespace {

bool is_zero(std::span<const std::byte> bytes) {
  return std::ranges::all_of(bytes, [](std::byte byte) { return byte == std::byte{0}; });
}

TEST(Pool, AClearedFrameIsZeroHoweverItWasUsed) {
  const auto pool = Pool::open(3);
  ASSERT_TRUE(pool.ok());
  for (int round = 0; round < 4; ++round) {
    const auto frame = (*pool)->take(0);
    ASSERT_TRUE(frame.has_value());
    (*pool)->clear(*frame);
    EXPECT_TRUE(is_zero((*pool)->bytes(*frame)));
    std::memset((*pool)->bytes_to_fill(*frame).data(), 0xAB, kBlockBytes);
    (*pool)->give_back(*frame);
  }
}

TEST(Pool, MemoryOfManyFreedFramesGoesBack) {
  constexpr uint32_t kFrames = 80;
  const auto pool = Pool::open(kFrames);
  ASSERT_TRUE(pool.ok());
  for (int round = 0; round < 2; ++round) {
    for (uint32_t frame = 0; frame < kFrames; ++frame) {
      ASSERT_EQ((*pool)->take(frame), frame);
      (*pool)->clear(frame);
      EXPECT_TRUE(is_zero((*pool)->bytes(frame).first(64)));
      std::memset((*pool)->bytes(frame).data(), 0xAB, 64);
    }
    EXPECT_EQ((*pool)->take(0), std::nullopt);
    for (uint32_t frame = 0; frame < kFrames; ++frame) {
      (*pool)->discard(frame);
      (*pool)->give_back(frame);
    }
  }
  EXPECT_EQ((*pool)->free_frames(), kFrames);
  EXPECT_EQ((*pool)->bytes(0)[0], std::byte{0xAB});         // kept at hand
  EXPECT_EQ((*pool)->bytes(kFrames - 1)[0], std::byte{0});  // gave its memory back
}

}  // namespace
}  // namespace brickfs
