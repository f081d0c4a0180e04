// SPDX-License-Identifier: Apache-2.0
// What a coordinator lends to whom, and has to do before it is anybody else's.
#include "fs/shared/unit_lender.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
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
    std::vector<UnitRun> runs;
    for (uint64_t i = 0; i < blocks; ++i) runs.push_back({kUnitsPerBlock * next_++, kUnitsPerBlock});
    return runs;
  }
  Status clear_units(std::span<const UnitRun>) override { return {}; }
  void end_lending(UnitRun) override {}
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
  std::atomic<bool> brick_is_away{false};

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
  EXPECT_EQ(kept.bytes->fetch(run.address(), bytes).code(), ENODATA);
  EXPECT_EQ(kept.bytes->fetch(run.address(), bytes).code(), ENODATA) << "nor another time";
  ends.join();
}

}  // namespace
}  // namespace brickfs::shared
