// SPDX-License-Identifier: Apache-2.0
#include "transport/volume/activity_log.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "tests/support/eventually.h"

namespace brickfs {
namespace {

constexpr BlockRange kFirst{BlockAddress{8 * kBlockBytes}, 1};

// Writes to some bytes of a block and is done.
void write_to(ActivityLog& blocks, BlockRange block) {
  std::array<std::byte, 8> bytes{};
  const Piece piece{raw(block.start), {{bytes.data(), static_cast<uint32_t>(bytes.size()), 0}}};
  ASSERT_TRUE(blocks.claim(std::span(&piece, 1), nullptr).ok());
}

ActivityLog without_replicas() {
  return ActivityLog([](std::span<const ActivityLog::Row>, const Interruption*) { return Status(); });
}

TEST(ActivityLog, ARowGoesWhenOthersNeedItsPlace) {
  ActivityLog blocks = without_replicas();
  write_to(blocks, kFirst);
  for (uint64_t i = 1; i <= kActivityRows; ++i) write_to(blocks, {block_after(kFirst.start, i), 1});
  EXPECT_FALSE(blocks.active().contains(kFirst));
}

TEST(ActivityLog, TheRowOfABlockThatIsDifferentStays) {
  ActivityLog blocks = without_replicas();
  write_to(blocks, kFirst);
  blocks.keep(kFirst);
  for (uint64_t i = 1; i <= 2 * kActivityRows; ++i) write_to(blocks, {block_after(kFirst.start, i), 1});
  EXPECT_TRUE(blocks.active().contains(kFirst));
  blocks.let_go(kFirst);
  for (uint64_t i = 1; i <= kActivityRows; ++i) write_to(blocks, {block_after(kFirst.start, i), 1});
  EXPECT_FALSE(blocks.active().contains(kFirst));
}

TEST(ActivityLog, LentBlocksHaveRowsUntilTheyAreBack) {
  ActivityLog blocks = without_replicas();
  ASSERT_TRUE(blocks.lend(kFirst, nullptr).ok());
  EXPECT_TRUE(blocks.active().contains(kFirst));
  blocks.keep(kFirst);
  blocks.let_go(kFirst);  // it is lent still
  for (uint64_t i = 1; i <= 2 * kActivityRows; ++i) write_to(blocks, {block_after(kFirst.start, i), 1});
  EXPECT_TRUE(blocks.active().contains(kFirst));
  blocks.end_lending(kFirst);
  for (uint64_t i = 1; i <= kActivityRows; ++i) write_to(blocks, {block_after(kFirst.start, i), 1});
  EXPECT_FALSE(blocks.active().contains(kFirst));
}

TEST(ActivityLog, HalfOfTheRowsAreForLentBlocks) {
  ActivityLog blocks = without_replicas();
  ASSERT_TRUE(blocks.lend({kFirst.start, ActivityLog::kMostLent}, nullptr).ok());
  const BlockRange next{block_after(kFirst.start, ActivityLog::kMostLent), 1};
  EXPECT_EQ(blocks.lend(next, nullptr).code(), EAGAIN);
  EXPECT_FALSE(blocks.is_lent(next));
  write_to(blocks, next);
  blocks.end_lending(kFirst);
  EXPECT_TRUE(blocks.lend(next, nullptr).ok());
}

TEST(ActivityLog, WithoutItsRowNoBlockIsLent) {
  ActivityLog blocks([](std::span<const ActivityLog::Row>, const Interruption*) { return Error(EIO, "no row"); });
  EXPECT_EQ(blocks.lend(kFirst, nullptr).code(), EIO);
  EXPECT_FALSE(blocks.lends());
}

// Together they need more rows than there are.
TEST(ActivityLog, ThoseWhoNeedManyRowsDoNotWaitForEachOther) {
  ActivityLog blocks([](std::span<const ActivityLog::Row>, const Interruption*) {
    std::this_thread::yield();
    return Status();
  });
  constexpr size_t kWriters = 2 * kActivityRows / ActivityLog::kMostBlocks;
  Interruption too_long;
  constexpr size_t kRounds = 20;
  std::atomic<size_t> ended{0};  // rounds of all
  std::vector<std::thread> writers;
  for (size_t writer = 0; writer < kWriters; ++writer) {
    writers.emplace_back([&, writer] {
      std::array<std::byte, 8> bytes{};
      std::vector<Piece> pieces;
      for (size_t i = 0; i < ActivityLog::kMostBlocks; ++i) {
        const BlockAddress block = block_after(kFirst.start, writer * ActivityLog::kMostBlocks + i);
        pieces.push_back({raw(block), {{bytes.data(), static_cast<uint32_t>(bytes.size()), 0}}});
      }
      for (size_t round = 0; round < kRounds; ++round, ++ended) EXPECT_TRUE(blocks.claim(pieces, &too_long).ok());
    });
  }
  for (size_t before = 0; ended < kWriters * kRounds; before = ended) {
    if (!testing::eventually([&] { return ended > before; })) break;
  }
  too_long.raise();
  for (std::thread& writer : writers) writer.join();
}

TEST(ActivityLog, AsManyPiecesAreClaimableAsHaveRows) {
  std::vector<std::byte> bytes(2 * kBlockBytes);
  std::vector<Piece> pieces;
  for (uint64_t i = 0; i < ActivityLog::kMostBlocks; ++i) {  // of two blocks each
    const uint64_t address = raw(block_after(kFirst.start, 2 * i));
    pieces.push_back({address, {{bytes.data(), static_cast<uint32_t>(bytes.size()), 0}}});
  }
  EXPECT_EQ(ActivityLog::claimable(pieces), ActivityLog::kMostBlocks / 2);
  EXPECT_EQ(ActivityLog::claimable(std::span(pieces).first(3)), 3u);
}

}  // namespace
}  // namespace brickfs
