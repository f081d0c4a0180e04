// SPDX-License-Identifier: Apache-2.0
#include "server/store/pool.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

namespace brickfs {
namespace {

using std::chrono::milliseconds;

// Nothing happens by itself.
constexpr FreeFrames::Upkeep kNone{.ready = 0, .cool = false};

bool is_zero(std::span<const std::byte> bytes) {
  return std::ranges::all_of(bytes, [](std::byte byte) { return byte == std::byte{0}; });
}

bool is_resident(std::span<std::byte> bytes) {
  constexpr size_t kPageBytes = 4096;
  std::vector<unsigned char> pages(bytes.size() / kPageBytes);
  return mincore(bytes.data(), bytes.size(), pages.data()) == 0 &&
         std::ranges::all_of(pages, [](unsigned char page) { return (page & 1) != 0; });
}

uint32_t resident_frames(const Pool& pool) {
  uint32_t count = 0;
  for (uint32_t frame = 0; frame < pool.frames(); ++frame) count += is_resident(pool.bytes(frame)) ? 1 : 0;
  return count;
}

template <typename Condition>
bool becomes(Condition condition) {
  for (int i = 0; i < 2'000 && !condition(); ++i) std::this_thread::sleep_for(milliseconds(5));
  return condition();
}

TEST(Pool, AClearedFrameIsZeroHoweverItWasUsed) {
  const auto pool = Pool::open(3, kNone);
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

TEST(Pool, ItsThreadKeepsFramesReady) {
  constexpr uint32_t kFrames = 16;
  const auto pool = Pool::open(kFrames, {.ready = 4, .quiet = milliseconds(1), .cool = false});
  ASSERT_TRUE(pool.ok());
  ASSERT_TRUE(becomes([&] { return resident_frames(**pool) == 4; }));
  const auto frame = (*pool)->take(0);
  ASSERT_TRUE(frame.has_value());
  EXPECT_TRUE(is_resident((*pool)->bytes(*frame)));
  std::memset((*pool)->bytes_to_fill(*frame).data(), 0xAB, kBlockBytes);
  ASSERT_TRUE(becomes([&] { return resident_frames(**pool) == 5; }));
  (*pool)->give_back(*frame);
  // What is ready comes before what was used. The thread may still have the fourth in hand.
  for (int i = 0; i < 3; ++i) EXPECT_NE((*pool)->take(*frame), frame);
}

TEST(Pool, ItsThreadGivesMemoryBack) {
  constexpr uint32_t kFrames = 16;
  const auto pool = Pool::open(kFrames, {.ready = 2, .quiet = milliseconds(1), .keep = milliseconds(20)});
  ASSERT_TRUE(pool.ok());
  std::vector<uint32_t> taken;
  while (const auto frame = (*pool)->take(0)) {
    std::memset((*pool)->bytes_to_fill(*frame).data(), 0xAB, kBlockBytes);
    taken.push_back(*frame);
  }
  EXPECT_EQ(taken.size(), kFrames);
  for (const uint32_t frame : taken) (*pool)->give_back(frame);
  EXPECT_TRUE(becomes([&] { return resident_frames(**pool) == 2; }));
  EXPECT_EQ((*pool)->free_frames(), kFrames);
  for (uint32_t i = 0; i < kFrames; ++i) {
    const auto frame = (*pool)->take(i);
    ASSERT_TRUE(frame.has_value());
    (*pool)->clear(*frame);
    EXPECT_TRUE(is_zero((*pool)->bytes(*frame)));
  }
}

TEST(Pool, NothingGoesBackOnceADeviceMayHoldPages) {
  const auto pool = Pool::open(8, {.ready = 0, .keep = milliseconds(1)});
  ASSERT_TRUE(pool.ok());
  EXPECT_EQ((*pool)->keep_memory().size(), 8 * kBlockBytes);
  const auto frame = (*pool)->take(0);
  ASSERT_TRUE(frame.has_value());
  std::memset((*pool)->bytes_to_fill(*frame).data(), 0xAB, kBlockBytes);
  (*pool)->give_back(*frame);
  std::this_thread::sleep_for(milliseconds(50));
  EXPECT_EQ((*pool)->bytes(*frame)[0], std::byte{0xAB});
}

// Those who take all there is find all there is, whatever the thread is at.
TEST(Pool, EveryFrameCanBeHadAtAnyTime) {
  constexpr uint32_t kFrames = 32;
  const auto pool = Pool::open(kFrames, {.ready = 8, .quiet = milliseconds(0), .keep = milliseconds(0)});
  ASSERT_TRUE(pool.ok());
  for (int round = 0; round < 200; ++round) {
    std::vector<uint32_t> taken;
    for (uint32_t i = 0; i < kFrames; ++i) {
      const auto frame = (*pool)->take(i);
      ASSERT_TRUE(frame.has_value()) << i << " in round " << round;
      (*pool)->clear(*frame);
      ASSERT_EQ((*pool)->bytes(*frame)[kBlockBytes - 1], std::byte{0});
      (*pool)->bytes(*frame)[kBlockBytes - 1] = std::byte{1};
      taken.push_back(*frame);
    }
    ASSERT_EQ((*pool)->take(0), std::nullopt);
    ASSERT_EQ((*pool)->free_frames(), 0u);
    for (const uint32_t frame : taken) (*pool)->give_back(frame);
    ASSERT_EQ((*pool)->free_frames(), kFrames);
  }
}

}  // namespace
}  // namespace brickfs
