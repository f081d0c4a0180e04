// SPDX-License-Identifier: Apache-2.0
// The contract of transport/brick/brick.h, for every implementation of it: control calls.
// brick_contract_data_test.cc has the data calls, brick_contract_lease_test.cc sessions and leases.
#include "tests/support/brick_contract.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "server/store/memory_room.h"
#include "transport/brick/limits.h"

namespace brickfs::testing {
namespace {

class BrickCalls : public BrickContract {};
BRICK_CONTRACT_FOR_EVERY_KIND(BrickCalls);

TEST_P(BrickCalls, WithoutASessionEveryCallIsENOTCONN) {
  start(4, 8);
  auto client = connect();
  EXPECT_EQ(client->alloc(blocks(0)).code(), ENOTCONN);
  EXPECT_EQ(client->free(blocks(0)).code(), ENOTCONN);
  EXPECT_EQ(client->map(blocks(0), Access::kRead).code(), ENOTCONN);
  EXPECT_EQ(client->unmap(blocks(0)).code(), ENOTCONN);
  EXPECT_EQ(client->list(BlockAddress{0}).code(), ENOTCONN);
  EXPECT_EQ(client->commit({}).code(), ENOTCONN);
  EXPECT_EQ(client->stat().code(), ENOTCONN);
  EXPECT_EQ(client->close().code(), ENOTCONN);
  EXPECT_EQ(write(*client, Handle{.blocks = blocks(0), .access = Access::kReadWrite}, 0, pattern(16, 1)).code(),
            ENOTCONN);
}

TEST_P(BrickCalls, ASessionTellsGeometryAndDurability) {
  start(4, 8, {{"small", 3 * kBlockBytes}});
  Session session;
  auto client = open(1, &session);
  EXPECT_EQ(session.durability, GetParam().durability);
  EXPECT_EQ(session.capacity_blocks, capacity());
  EXPECT_EQ(session.memory_blocks, 4u);
  EXPECT_NE(session.boot, BootId{});
  EXPECT_NE(session.epoch, Epoch{});
  EXPECT_EQ(session.suspect_blocks, 0u);
  OpenRequest small = request(2);
  small.volume = "small";
  auto other = open(small, &session);
  EXPECT_EQ(session.capacity_blocks, 3u);
}

TEST_P(BrickCalls, RangesThatCannotBeAreEINVAL) {
  start(4, 8);
  auto client = open(1);
  const std::vector<BlockRange> impossible = {
      {block_number(0), 0},
      {BlockAddress{4096}, 1},
      {BlockAddress{UINT64_MAX - kBlockBytes + 1}, 2},
      {BlockAddress{0}, UINT64_MAX},
      {BlockAddress{0}, limits::kBlocksPerCall + 1},
  };
  for (const BlockRange& range : impossible) {
    EXPECT_EQ(client->alloc(range).code(), EINVAL);
    EXPECT_EQ(client->free(range).code(), EINVAL);
    EXPECT_EQ(client->map(range, Access::kRead).code(), EINVAL);
    EXPECT_EQ(client->unmap(range).code(), EINVAL);
  }
  EXPECT_EQ(client->list(BlockAddress{1}).code(), EINVAL);
  EXPECT_TRUE(client->alloc(blocks(0)).ok());
}

TEST_P(BrickCalls, TheLastBlockOfTheSpaceIsLikeAnyOther) {
  start(4, 8);
  auto client = open(1);
  const BlockRange last{BlockAddress{UINT64_MAX - 2 * kBlockBytes + 1}, 1};
  ASSERT_TRUE(client->alloc(last).ok());
  const auto handles = client->map(last, Access::kReadWrite);
  ASSERT_TRUE(handles.ok());
  ASSERT_TRUE(write(*client, handles->front(), kBlockBytes - 16, pattern(16, 9)).ok());
  EXPECT_EQ(read(*client, handles->front(), kBlockBytes - 16, 16), pattern(16, 9));
  EXPECT_EQ(list_all(*client), std::vector<BlockRange>{last});
  EXPECT_TRUE(client->free(last).ok());
}

TEST_P(BrickCalls, ANewBlockIsZeroEvenInMemoryThatWasUsed) {
  start(4, 4);
  auto client = open(1);
  for (unsigned round = 0; round < 3; ++round) {
    const BlockRange range = blocks(100 * round, 4);
    ASSERT_TRUE(client->alloc(range).ok());
    const auto handles = client->map(range, Access::kReadWrite);
    ASSERT_TRUE(handles.ok());
    for (const Handle& handle : *handles) {
      for (uint64_t block = 0; block < handle.blocks.count; ++block) {
        EXPECT_EQ(read(*client, handle, block * kBlockBytes, kBlockBytes), std::vector<std::byte>(kBlockBytes));
        ASSERT_TRUE(write(*client, handle, block * kBlockBytes, pattern(kBlockBytes, round)).ok());
      }
    }
    const CommitRange all{raw(range.start), 4 * kBlockBytes, false};
    ASSERT_TRUE(client->commit({&all, 1}).ok());
    ASSERT_TRUE(client->free(range).ok());
  }
}

TEST_P(BrickCalls, AllocWorksOnAllOrNothing) {
  start(8, 8);
  auto client = open(1);
  ASSERT_TRUE(client->alloc(blocks(2)).ok());
  EXPECT_EQ(client->alloc(blocks(0, 4)).code(), EEXIST);
  EXPECT_EQ(list_all(*client), std::vector<BlockRange>{blocks(2)});
  EXPECT_EQ(client->alloc(blocks(10, 8)).code(), ENOSPC);
  EXPECT_EQ(list_all(*client), std::vector<BlockRange>{blocks(2)});
  EXPECT_TRUE(client->alloc(blocks(10, 7)).ok());
  EXPECT_EQ(client->alloc(blocks(20)).code(), ENOSPC);
  EXPECT_TRUE(client->free(blocks(11, 2)).ok());
  EXPECT_TRUE(client->alloc(blocks(20, 2)).ok());
  EXPECT_EQ(list_all(*client), (std::vector<BlockRange>{blocks(2), blocks(10), blocks(13, 4), blocks(20, 2)}));
}

TEST_P(BrickCalls, TheQuotaIsTheVolumesTheRoomTheBricks) {
  start(8, 8, {{"small", 3 * kBlockBytes + 1}});
  OpenRequest small = request(1);
  small.volume = "small";
  auto limited = open(small);
  auto other = open(2);
  EXPECT_EQ(limited->alloc(blocks(0, 4)).code(), EDQUOT);
  ASSERT_TRUE(limited->alloc(blocks(0, 2)).ok());
  EXPECT_EQ(limited->stat()->allocatable_blocks, 1u);
  ASSERT_TRUE(other->alloc(blocks(0, 6)).ok());
  EXPECT_EQ(limited->alloc(blocks(2)).code(), ENOSPC);
  EXPECT_EQ(limited->stat()->allocatable_blocks, 0u);
  ASSERT_TRUE(other->free(blocks(0)).ok());
  ASSERT_TRUE(limited->alloc(blocks(2)).ok());
  EXPECT_EQ(limited->alloc(blocks(3)).code(), EDQUOT);
}

TEST_P(BrickCalls, VolumesAreSeparateSpaces) {
  start(8, 8, {{"second", {}}});
  OpenRequest second = request(2);
  second.volume = "second";
  auto one = open(1);
  auto two = open(second);
  ASSERT_TRUE(one->alloc(blocks(5)).ok());
  EXPECT_EQ(two->map(blocks(5), Access::kRead).code(), ENOENT);
  ASSERT_TRUE(two->alloc(blocks(5)).ok());
  const Handle mine = map_one(*one, 5);
  const Handle theirs = map_one(*two, 5);
  ASSERT_TRUE(write(*one, mine, 0, pattern(64, 1)).ok());
  ASSERT_TRUE(write(*two, theirs, 0, pattern(64, 2)).ok());
  EXPECT_EQ(read(*one, mine, 0, 64), pattern(64, 1));
  ASSERT_TRUE(one->free(blocks(5)).ok());
  EXPECT_EQ(read(*two, theirs, 0, 64), pattern(64, 2));
}

TEST_P(BrickCalls, FreeWorksOnAllOrNothing) {
  start(8, 8);
  auto client = open(1);
  ASSERT_TRUE(client->alloc(blocks(0, 4)).ok());
  EXPECT_EQ(client->free(blocks(2, 4)).code(), ENOENT);
  EXPECT_EQ(client->free(blocks(7)).code(), ENOENT);
  EXPECT_EQ(list_all(*client), std::vector<BlockRange>{blocks(0, 4)});
  EXPECT_TRUE(client->free(blocks(0, 4)).ok());
  EXPECT_TRUE(list_all(*client).empty());
}

TEST_P(BrickCalls, MapAnswersHandlesThatCoverTheRangeInOrder) {
  start(8, 8);
  auto client = open(1);
  ASSERT_TRUE(client->alloc(blocks(0, 8)).ok());
  map_one(*client, 3);
  map_one(*client, 1);
  const auto handles = client->map(blocks(0, 8), Access::kRead);
  ASSERT_TRUE(handles.ok());
  BlockAddress next = block_number(0);
  for (const Handle& handle : *handles) {
    EXPECT_EQ(handle.blocks.start, next);
    EXPECT_EQ(handle.access, Access::kRead);
    next = handle.blocks.end();
  }
  EXPECT_EQ(next, block_number(8));
}

TEST_P(BrickCalls, MapWorksOnAllOrNothing) {
  start(8, 8);
  auto client = open(1);
  ASSERT_TRUE(client->alloc(blocks(0, 2)).ok());
  EXPECT_EQ(client->map(blocks(0, 3), Access::kRead).code(), ENOENT);
  EXPECT_EQ(client->map(blocks(1, 2), Access::kReadWrite).code(), ENOENT);
  EXPECT_EQ(client->stat()->volume_mapped_blocks, 0u);
}

TEST_P(BrickCalls, MapIsENOMEMWhenAllMemoryIsMapped) {
  if (!durable()) GTEST_SKIP() << "its capacity is its memory";
  start(4, 8);
  auto client = open(1);
  ASSERT_TRUE(client->alloc(blocks(0, 8)).ok());
  EXPECT_EQ(client->map(blocks(0, 5), Access::kRead).code(), ENOMEM);
  ASSERT_TRUE(client->map(blocks(0, 3), Access::kReadWrite).ok());
  EXPECT_EQ(client->map(blocks(3, 2), Access::kReadWrite).code(), ENOMEM);
  EXPECT_EQ(client->stat()->volume_mapped_blocks, 3u);
  ASSERT_TRUE(client->unmap(blocks(1)).ok());
  EXPECT_TRUE(client->map(blocks(3, 2), Access::kReadWrite).ok());
}

TEST_P(BrickCalls, UnmapPassesOverWhatIsNotMapped) {
  start(8, 8);
  auto client = open(1);
  ASSERT_TRUE(client->alloc(blocks(0, 4)).ok());
  map_one(*client, 2);
  EXPECT_TRUE(client->unmap(blocks(0, 4)).ok());
  EXPECT_EQ(client->stat()->volume_mapped_blocks, 0u);
  EXPECT_TRUE(client->unmap(blocks(0, 4)).ok());
  EXPECT_EQ(client->unmap(blocks(2, 4)).code(), ENOENT);
}

TEST_P(BrickCalls, ListComesInPages) {
  constexpr uint64_t kExtents = limits::kExtentsPerListPage + 100;
  constexpr uint64_t kBytes = 2 * kExtents * kBlockBytes;
  if (GetParam().keeps) GTEST_SKIP() << "it takes all of 17 GB at once, and whatever runs beside it wants memory, too";
  const uint64_t room_bytes =
      durable() ? std::filesystem::space("/tmp").available / 4 : memory_most_bytes();  // others fill the disk beside it
  if (room_bytes < kBytes) GTEST_SKIP() << "too little room for so many blocks";
  start(2 * kExtents, 2 * kExtents);
  auto client = open(1);
  std::vector<BlockRange> expected;
  for (uint64_t i = 0; i < kExtents; ++i) {
    expected.push_back(blocks(3 * i, 1 + i % 2));
    ASSERT_TRUE(client->alloc(expected.back()).ok());
  }
  const auto first = client->list(BlockAddress{0});
  ASSERT_TRUE(first.ok());
  EXPECT_LE(first->extents.size(), limits::kExtentsPerListPage);
  EXPECT_TRUE(first->cursor.has_value());
  EXPECT_EQ(list_all(*client), expected);
}

TEST_P(BrickCalls, ListBeginsAtItsCursor) {
  start(8, 8);
  auto client = open(1);
  ASSERT_TRUE(client->alloc(blocks(10, 4)).ok());
  ASSERT_TRUE(client->alloc(blocks(20)).ok());
  const auto page = client->list(block_number(12));
  ASSERT_TRUE(page.ok());
  EXPECT_EQ(page->extents, (std::vector<BlockRange>{blocks(12, 2), blocks(20)}));
  EXPECT_FALSE(page->cursor.has_value());
  EXPECT_TRUE(client->list(block_number(21))->extents.empty());
}

TEST_P(BrickCalls, CommitChecksItsRanges) {
  start(8, 8);
  auto client = open(1);
  ASSERT_TRUE(client->alloc(blocks(0, 2)).ok());
  const auto commit = [&](uint64_t address, uint64_t length) {
    const CommitRange range{address, length, false};
    return client->commit({&range, 1}).code();
  };
  EXPECT_EQ(commit(0, 2 * kBlockBytes), 0);
  EXPECT_EQ(commit(kBlockBytes - 1, 2), 0);
  EXPECT_EQ(commit(0, 0), EINVAL);
  EXPECT_EQ(commit(0, 2 * kBlockBytes + 1), ENOENT);
  EXPECT_EQ(commit(5 * kBlockBytes, 1), ENOENT);
  EXPECT_EQ(commit(kBlockBytes, UINT64_MAX), EINVAL);
  EXPECT_EQ(client->commit({}).code(), 0);
  EXPECT_EQ(client->commit(std::vector<CommitRange>(5, {0, 1, true})).code(), 0);
  EXPECT_EQ(client->commit(std::vector<CommitRange>(limits::kRangesPerCommit, {0, 1, false})).code(), 0);
  EXPECT_EQ(client->commit(std::vector<CommitRange>(limits::kRangesPerCommit + 1, {0, 1, false})).code(), EINVAL);
}

TEST_P(BrickCalls, WhatWasCommittedSurvivesARestartOfABrickThatForgetsNothing) {
  start(durable() ? 4 : 8, 8);
  Session before;
  {
    auto client = open(1, &before);
    ASSERT_TRUE(client->alloc(blocks(0, 6)).ok());
    for (uint64_t i = 0; i < 6; ++i) {
      ASSERT_TRUE(write(*client, map_one(*client, i), 100 * i, pattern(5000, static_cast<unsigned>(i))).ok());
      const CommitRange range{i * kBlockBytes + 100 * i, 5000, i % 2 == 0};
      ASSERT_TRUE(client->commit({&range, 1}).ok());
      ASSERT_TRUE(client->unmap(blocks(i)).ok());
    }
    ASSERT_TRUE(client->free(blocks(4)).ok());
    ASSERT_TRUE(client->commit({}).ok());
    ASSERT_TRUE(client->close().ok());
  }
  brick().restart();
  Session after;
  auto client = open(1, &after);
  EXPECT_EQ(after.boot == before.boot, GetParam().keeps);
  if (!durable() && !GetParam().keeps) {
    EXPECT_TRUE(list_all(*client).empty());
    return;
  }
  EXPECT_GT(after.epoch, before.epoch);
  EXPECT_EQ(list_all(*client), (std::vector<BlockRange>{blocks(0, 4), blocks(5)}));
  for (const uint64_t i : {0, 1, 2, 3, 5}) {
    const Handle handle = map_one(*client, i, Access::kRead);
    EXPECT_EQ(read(*client, handle, 100 * i, 5000), pattern(5000, static_cast<unsigned>(i)));
    ASSERT_TRUE(client->unmap(blocks(i)).ok());
  }
}

TEST_P(BrickCalls, StatCounts) {
  start(6, 8);
  Session session;
  auto client = open(1, &session);
  ASSERT_TRUE(client->alloc(blocks(0, 3)).ok());
  map_one(*client, 1);
  map_one(*client, 1, Access::kRead);
  const CommitRange range{0, 4096, false};
  ASSERT_TRUE(client->commit({&range, 1}).ok());
  const auto stat = client->stat();
  ASSERT_TRUE(stat.ok());
  EXPECT_EQ(stat->boot, session.boot);
  EXPECT_EQ(stat->durability, GetParam().durability);
  EXPECT_EQ(stat->volume_capacity_blocks, capacity());
  EXPECT_EQ(stat->volume_used_blocks, 3u);
  EXPECT_EQ(stat->volume_mapped_blocks, 1u);
  EXPECT_EQ(stat->brick_capacity_blocks, capacity());
  EXPECT_EQ(stat->brick_used_blocks, 3u);
  EXPECT_EQ(stat->memory_blocks, 6u);
  EXPECT_EQ(stat->resident_blocks, GetParam().keeps ? 3u : 1u);  // from alloc on, or from the first mapping on
  EXPECT_EQ(stat->allocatable_blocks, capacity() - 3);
  EXPECT_EQ(stat->sessions, 1u);
  EXPECT_EQ(stat->commits, 1u);
  EXPECT_EQ(stat->epoch, session.epoch);
  ASSERT_TRUE(stat->holder.has_value());
  EXPECT_EQ(stat->holder->name, "client 1");
  EXPECT_FALSE(stat->medium.empty());
  EXPECT_FALSE(stat->transport.empty());
}

}  // namespace
}  // namespace brickfs::testing
