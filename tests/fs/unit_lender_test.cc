// SPDX-License-Identifier: Apache-2.0
// What a coordinator lends to whom, and has to do before it is anybody else's.
#include "fs/shared/unit_lender.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <thread>
#include <vector>

#include "tests/support/eventually.h"

namespace brickfs::shared {
namespace {

using testing::eventually;

constexpr ClientId kClient{77};

// A volume of which one block after the other is lent.
class LendingVolume final : public UnitLending {
 public:
  std::vector<UnitRun> lend_units(uint64_t blocks, ClientId, const Interruption*) override {
    if (while_lending) while_lending();
    std::vector<UnitRun> runs;
    for (uint64_t i = 0; i < blocks; ++i) runs.push_back({kUnitsPerBlock * next_++, kUnitsPerBlock});
    return runs;
  }
  Status clear_units(std::span<const UnitRun>, const Interruption* by) override {
    while (copy_is_away && Interruption::check(by).ok()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    return copy_is_away ? Status(Error(EINTR)) : Status();
  }
  void end_lending(UnitRun) override { ++ended; }
  void free_units(std::span<const UnitRun> runs) override {
    for (const UnitRun& run : runs) freed += run.count;
  }
  Status expel_client(ClientId client) override {
    EXPECT_EQ(client, kClient);
    if (brick_is_away) return Error(ENOTCONN, "a brick is away");
    ++expelled;
    return {};
  }
  std::vector<LentPlace> writable_places() const override { return {}; }
  uint64_t lent_units() const override { return 0; }
  void ask_back_by(std::function<void(const Interruption*)>) override {}

  std::atomic<uint64_t> freed{0};
  std::atomic<int> expelled{0};
  std::atomic<int> ended{0};
  std::atomic<bool> brick_is_away{false};
  std::atomic<bool> copy_is_away{false};
  std::function<void()> while_lending;
  void lend_again_from(uint64_t block) { next_ = block; }

 private:
  std::atomic<uint64_t> next_{1};
};

class UnitLenderTest : public ::testing::Test {
 protected:
  std::vector<UnitRun> lend(uint64_t blocks) { return lender_.lend(1, kClient, blocks, nullptr).runs; }
  void give_back(std::vector<UnitRun> runs, bool is_in_doubt) {
    ReturnUnits given;
    given.lender = kLender;
    given.runs = std::move(runs);
    given.is_in_doubt = is_in_doubt;
    lender_.give_back(1, given);
  }

  static constexpr uint64_t kLender = 5;
  LendingVolume volume_;
  UnitLender lender_{volume_, kLender, [](SessionId) {}};
};

TEST_F(UnitLenderTest, WhoGoesIsLetInByNoBrickAnyMoreThoughItHasNothing) {
  give_back(lend(2), false);
  EXPECT_TRUE(eventually([&] { return volume_.freed == 2 * kUnitsPerBlock; }));
  EXPECT_EQ(volume_.expelled, 0);
  lender_.end(1);
  EXPECT_TRUE(eventually([&] { return volume_.expelled == 1; }));
  lender_.end(2);
  give_back({}, false);
  EXPECT_EQ(volume_.expelled, 1) << "who was lent nothing was let in nowhere";
}

TEST_F(UnitLenderTest, WhatIsInDoubtIsFreeWhenTheBricksHaveEndedItsSessions) {
  volume_.brick_is_away = true;
  const auto runs = lend(1);
  give_back(runs, true);
  EXPECT_TRUE(lend(1).empty()) << "its bricks would let it in no more behind that";
  EXPECT_EQ(volume_.freed, 0u);
  volume_.brick_is_away = false;
  EXPECT_TRUE(eventually([&] { return volume_.freed == kUnitsPerBlock; }));
  EXPECT_EQ(volume_.expelled, 1);
  EXPECT_EQ(lend(1).size(), 1u);
}

TEST_F(UnitLenderTest, WhoIsShortDoesNotWaitForWhatCannotComeBack) {
  volume_.brick_is_away = true;
  give_back(lend(1), true);
  lender_.ask_back(nullptr);  // which has been tried behind that
  EXPECT_TRUE(testing::takes_less_than(std::chrono::seconds(1), [&] { lender_.ask_back(nullptr); }));
  EXPECT_EQ(volume_.freed, 0u);
}

TEST_F(UnitLenderTest, AnEndWaitsForWritesUnderWay) {
  const auto runs = lend(1);
  auto taken = *lender_.take(1, kLender, runs);
  std::atomic<bool> is_closed{false};
  std::thread closes([&] {
    lender_.close();
    is_closed = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_FALSE(is_closed);
  taken.are_a_files();
  closes.join();
  EXPECT_EQ(lender_.take(1, kLender, runs).code(), EAGAIN);
}

TEST_F(UnitLenderTest, BytesOfWhoIsGoneAreNotWaitedFor) {
  const UnitRun run = lend(1).front();
  const auto kept = lender_.bytes().keep(1, "a member", 9, std::span(&run, 1));
  std::thread ends([&] { lender_.bytes().end(1); });
  std::vector<std::byte> bytes(kUnitBytes);
  EXPECT_EQ(kept.bytes()->fetch(run.address(), bytes).code(), ENODATA);
  EXPECT_EQ(kept.bytes()->fetch(run.address(), bytes).code(), ENODATA) << "nor another time";
  ends.join();
}

TEST_F(UnitLenderTest, WhoDoesNotGiveItsBytesIsLentNothingMoreAndTakesNothing) {
  UnitLender lender(
      volume_, kLender, [](SessionId) {}, std::chrono::milliseconds(20));
  const UnitRun run = lender.lend(1, kClient, 1, nullptr).runs.front();
  const auto kept = lender.bytes().keep(1, "a member", 9, std::span(&run, 1));
  EXPECT_FALSE(lender.bytes().has_failed(1));
  std::vector<std::byte> bytes(kUnitBytes);
  EXPECT_EQ(kept.bytes()->fetch(run.address(), bytes).code(), ENODATA);
  EXPECT_TRUE(lender.bytes().has_failed(1)) << "the coordinator expels it for that";
  EXPECT_TRUE(lender.lend(1, kClient, 1, nullptr).runs.empty());
  EXPECT_EQ(lender.take(1, kLender, std::span(&run, 1)).code(), EAGAIN);
}

TEST_F(UnitLenderTest, BytesThatNoFileHasNobodyIsAskedFor) {
  const UnitRun run = lend(1).front();
  std::shared_ptr<LentBytes> bytes;
  {
    const auto kept = lender_.bytes().keep(1, "a member", 9, std::span(&run, 1));
    bytes = kept.bytes();  // as a brick's log has it of a write that was refused behind that
  }
  std::vector<std::byte> into(kUnitBytes, std::byte{1});
  EXPECT_TRUE(
      testing::takes_less_than(std::chrono::seconds(5), [&] { EXPECT_TRUE(bytes->fetch(run.address(), into).ok()); }));
  EXPECT_EQ(into, std::vector<std::byte>(kUnitBytes));
  EXPECT_FALSE(lender_.bytes().has_failed(1));
}

// A file had the block, and it is free and lent once more before that is through.
TEST_F(UnitLenderTest, ABlockThatIsLentAgainTooEarlyGoesBackBehindTheEnd) {
  const auto runs = lend(1);
  auto taken = *lender_.take(1, kLender, runs);
  volume_.lend_again_from(runs[0].first / kUnitsPerBlock);
  EXPECT_TRUE(lend(1).empty());
  EXPECT_EQ(volume_.ended, 0);
  EXPECT_EQ(volume_.freed, 0u) << "its rows would go, while it was lent";
  taken.are_a_files();
  EXPECT_EQ(volume_.ended, 1);
  EXPECT_EQ(volume_.freed, kUnitsPerBlock);
  volume_.lend_again_from(runs[0].first / kUnitsPerBlock);
  EXPECT_EQ(lend(1).size(), 1u);
  auto again = *lender_.take(1, kLender, runs);
  again.are_a_files();
  EXPECT_EQ(volume_.ended, 2);
}

TEST_F(UnitLenderTest, ManyCallsAtOnceAreLentNoMoreThanOne) {
  std::atomic<int> lending{0};
  volume_.while_lending = [&] {
    ++lending;
    (void)testing::eventually([&] { return lending == 4; }, std::chrono::milliseconds(200));
  };
  std::atomic<uint64_t> lent{0};
  std::vector<std::thread> calls;
  for (int i = 0; i < 4; ++i) calls.emplace_back([&] { lent += lend(kMostLentBlocks).size(); });
  for (std::thread& call : calls) call.join();
  EXPECT_EQ(lent, kMostLentBlocks);
}

TEST_F(UnitLenderTest, AnEndDoesNotWaitForACopyThatIsAway) {
  volume_.copy_is_away = true;
  give_back(lend(1), false);
  lender_.stop();  // or for ever
  EXPECT_EQ(volume_.freed, 0u) << "they are lent yet";
}

}  // namespace
}  // namespace brickfs::shared
