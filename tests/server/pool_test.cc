// SPDX-License-Identifier: Apache-2.0
#include "server/pool.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <vector>

namespace brickfs {
namespace {

bool is_zero(std::span<const std::byte> bytes) {
  return std::ranges::all_of(bytes, [](std::byte byte) { return byte == std::byte{0}; });
}

bool is_resident(std::span<std::byte> bytes) {
  constexpr size_t kPageBytes = 4096;
  std::vector<unsigned char> pages(bytes.size() / kPageBytes);
  return mincore(bytes.data(), bytes.size(), pages.data()) == 0 &&
         std::ranges::all_of(pages, [](unsigned char page) { return (page & 1) != 0; });
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

TEST(Pool, ACushionIsPopulatedAheadOfUse) {
  constexpr uint32_t kFrames = 16;
  const auto pool = Pool::open(kFrames);
  ASSERT_TRUE(pool.ok());
  const auto fill = [&](uint32_t most) {
    uint32_t count = 0;
    for (auto frame = (*pool)->cold_frame(most); frame; frame = (*pool)->cold_frame(most), ++count) {
      EXPECT_FALSE(is_resident((*pool)->bytes(*frame)));
      (*pool)->populate(*frame);
      (*pool)->note_populated(*frame);
      EXPECT_TRUE(is_resident((*pool)->bytes(*frame)));
    }
    return count;
  };
  EXPECT_EQ(fill(2), 2u);
  EXPECT_EQ(fill(kFrames), 2u);  // a quarter at most
  const auto taken = (*pool)->take(0);
  ASSERT_TRUE(taken.has_value());
  EXPECT_TRUE(is_resident((*pool)->bytes(*taken)));
  (*pool)->clear(*taken);
  EXPECT_TRUE(is_zero((*pool)->bytes(*taken)));
  EXPECT_EQ(fill(kFrames), 1u);
  // Taken while it was being populated: it counts no more.
  const auto cold = (*pool)->cold_frame(kFrames + 1);
  EXPECT_EQ(cold, std::nullopt);
  (*pool)->note_populated(*taken);
  EXPECT_EQ((*pool)->take(*taken + 1), *taken + 1);
  EXPECT_EQ(fill(kFrames), 1u);
}

}  // namespace
}  // namespace brickfs
