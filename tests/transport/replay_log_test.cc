// SPDX-License-Identifier: Apache-2.0
#include "transport/volume/replay_log.h"

#include <gtest/gtest.h>

#include <thread>

namespace brickfs {
namespace {

using std::chrono::milliseconds;
using Keep = ReplayLog::Keep;

uint64_t append(ReplayLog& log, uint64_t address, uint32_t length, Stage stage = Stage::kData) {
  std::vector<std::byte> bytes(length, std::byte{42});
  const LocalSlice slice{bytes.data(), length, 0};
  auto room = log.try_reserve(length, stage);
  EXPECT_TRUE(room.has_value());
  std::vector<ReplayLog::Record> records;
  log.copy(address, std::span(&slice, 1), stage, records);
  return log.append(std::move(records), *room);
}

TEST(ReplayLog, KeepsBytesOfScatteredSlices) {
  ReplayLog log(Keep::kBytes, 8 * kMiB, nullptr);
  std::vector<std::byte> bytes(700'000);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i % 251);
  const std::array<LocalSlice, 3> slices{LocalSlice{bytes.data(), 3, 0}, LocalSlice{bytes.data() + 3, 400'000, 0},
                                         LocalSlice{bytes.data() + 400'003, 299'997, 0}};
  auto room = log.try_reserve(bytes.size(), Stage::kData);
  std::vector<ReplayLog::Record> records;
  const uint64_t address = 2 * kBlockBytes - 1000;
  log.copy(address, slices, Stage::kData, records);
  log.append(std::move(records), *room);
  uint64_t at = address;
  for (const ReplayLog::Record* record : log.records()) {
    ASSERT_EQ(record->address, at);
    ASSERT_EQ(block_of(at), block_of(at + record->length_bytes - 1)) << "a record crosses the end of a block";
    ASSERT_EQ(std::memcmp(record->bytes.get(), bytes.data() + (at - address), record->length_bytes), 0);
    at += record->length_bytes;
  }
  EXPECT_EQ(at, address + bytes.size());
}

TEST(ReplayLog, DropsWhatACommitCovered) {
  ReplayLog log(Keep::kBytes, kMiB, nullptr);
  const uint64_t first = append(log, 0, 100);
  log.turn_over();
  const uint64_t second = append(log, 4096, 100);
  EXPECT_GT(second, first);
  EXPECT_EQ(log.records().size(), 2u);
  log.committed();
  EXPECT_GE(log.committed_generation(), first);
  EXPECT_LT(log.committed_generation(), second);
  ASSERT_EQ(log.records().size(), 1u);
  EXPECT_EQ(log.records()[0]->address, 4096u);
}

TEST(ReplayLog, AFailedCommitKeepsTheOrder) {
  ReplayLog log(Keep::kBytes, kMiB, nullptr);
  append(log, 0, 100);
  log.turn_over();
  append(log, 200, 100);
  log.commit_failed(Error(EIO));
  log.turn_over();
  EXPECT_EQ(log.committing_ranges().size(), 2u);
  EXPECT_EQ(log.records()[0]->address, 0u);
  EXPECT_EQ(log.records()[1]->address, 200u);
}

TEST(ReplayLog, IsBoundedForDataOnly) {
  int told = 0;
  ReplayLog log(Keep::kRanges, 1000 + 4 * 64, [&] { ++told; });
  append(log, 0, 400);
  EXPECT_EQ(told, 0);
  append(log, 400, 400);
  EXPECT_EQ(told, 1) << "half full";
  EXPECT_FALSE(log.try_reserve(600, Stage::kData).has_value());
  EXPECT_EQ(told, 2) << "no room";
  EXPECT_TRUE(log.try_reserve(600, Stage::kJournal).has_value());
  log.turn_over();
  std::thread waiter([&] {
    while (!log.has_room_for(600)) ASSERT_TRUE(log.wait_for_room(600, milliseconds(5000)).ok());
  });
  log.committed();
  waiter.join();
  EXPECT_EQ(log.used_bytes(), 0u);
}

TEST(ReplayLog, WaitersLearnOfAFailedCommit) {
  ReplayLog log(Keep::kRanges, 1000, nullptr);
  append(log, 0, 900);
  std::thread failing([&] {
    std::this_thread::sleep_for(milliseconds(30));
    log.commit_failed(Error(ENOSPC));
  });
  EXPECT_EQ(log.wait_for_room(500, milliseconds(5000)).code(), ENOSPC);
  failing.join();
}

TEST(ReplayLog, ForgetsFreedBlocks) {
  ReplayLog log(Keep::kBytes, kMiB, nullptr);
  append(log, 0, 100);
  append(log, kBlockBytes, 100);
  log.turn_over();
  append(log, kBlockBytes + 500, 100);
  append(log, 2 * kBlockBytes, 100);
  log.forget({BlockAddress{kBlockBytes}, 1});
  ASSERT_EQ(log.records().size(), 2u);
  EXPECT_EQ(log.records()[1]->address, 2 * kBlockBytes);
  EXPECT_EQ(log.used_bytes(), 2 * (100 + 64u));
}

TEST(ReplayLog, KeepsNothingOnAVolatileBrick) {
  ReplayLog log(Keep::kNothing, 100, nullptr);
  append(log, 0, 5000);
  EXPECT_TRUE(log.records().empty());
  EXPECT_EQ(log.used_bytes(), 0u);
}

}  // namespace
}  // namespace brickfs
