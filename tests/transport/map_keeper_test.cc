// SPDX-License-Identifier: Apache-2.0
#include "transport/membership/map_keeper.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "tests/support/memory_map_store.h"

namespace brickfs {
namespace {

// The holder of a place with two copies.
class KeptMap : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string why;
    SetMap map;
    map.generation = 1;
    map.wanted = 2;
    map.places = *plan_places({{"tcp://a:1", ""}, {"tcp://b:1", ""}}, 2, "v", &why);
    map.places[0].replicas[0].id[0] = std::byte{1};
    for (MapReplica& replica : map.places[0].replicas) replica.state = ReplicaState::kInSync;
    ASSERT_TRUE(map_->replace(map, 0).ok());
    ASSERT_TRUE(keeper_.load().ok());
    ASSERT_TRUE(keeper_.claim({ClientId{7}, "test", 0, false}, [](SetMap&) {}).ok());
  }
  static bool has_one_out(const SetMap& map) { return map.places[0].replicas[1].state == ReplicaState::kStale; }
  static bool leave_one_out(SetMap& map) {
    set_state(map.places[0].replicas[1], ReplicaState::kStale, map.generation + 1);
    return true;
  }
  static bool leave_it(SetMap&) { return false; }
  SetMap stored() const { return map_->get()->map; }

  std::shared_ptr<MemoryMap> map_ = std::make_shared<MemoryMap>();
  std::shared_ptr<MemoryMapStore> store_ = std::make_shared<MemoryMapStore>(map_);
  MapKeeper keeper_{store_};
};

TEST_F(KeptMap, WithNothingToChangeNothingIsWritten) {
  const SetMap before = stored();
  EXPECT_TRUE(keeper_.change(leave_it).ok());
  EXPECT_EQ(stored(), before);
}

// It may be on its way yet, and would overtake what is decided by the map that was read.
TEST_F(KeptMap, AChangeThatNobodyAnsweredDoesNotHappenLater) {
  store_->hold_up(has_one_out);
  ASSERT_EQ(keeper_.change(leave_one_out).code(), ETIMEDOUT);
  ASSERT_TRUE(keeper_.refresh().ok());
  SetMap expected = stored();
  EXPECT_TRUE(keeper_.change(leave_it).ok());
  EXPECT_EQ(store_->let_happen().code(), EAGAIN);
  ++expected.generation;
  EXPECT_EQ(stored(), expected);
  EXPECT_EQ(*keeper_.map(), expected);
  EXPECT_TRUE(keeper_.change(leave_it).ok());
  EXPECT_EQ(stored(), expected) << "there is no doubt any more";
}

// What was to be changed then is of another version.
TEST_F(KeptMap, AChangeThatNobodyAnsweredHappensBeforeItIsAskedFor) {
  store_->hold_up(has_one_out);
  ASSERT_EQ(keeper_.change(leave_one_out).code(), ETIMEDOUT);
  ASSERT_TRUE(keeper_.refresh().ok());
  ASSERT_TRUE(store_->let_happen().ok());
  const SetMap happened = stored();
  bool found_out = false;
  EXPECT_TRUE(keeper_
                  .change([&](SetMap& map) {
                    found_out = has_one_out(map);
                    return false;
                  })
                  .ok());
  EXPECT_TRUE(found_out);
  EXPECT_EQ(stored(), happened);
}

TEST_F(KeptMap, AChangeWhoseAnswerWasLostIsNotWrittenOnceMore) {
  store_->lose_answers(1);
  ASSERT_EQ(keeper_.change(leave_one_out).code(), ETIMEDOUT);
  const SetMap happened = stored();
  ASSERT_TRUE(has_one_out(happened));
  EXPECT_TRUE(keeper_.change(leave_it).ok());
  EXPECT_EQ(stored(), happened);
}

// That it can be read meanwhile does not leave one copy out.
TEST_F(KeptMap, ARefusedChangeIsTroubleUntilOneIsDoneOrNoneIsWanted) {
  store_->set_full(true);
  ASSERT_EQ(keeper_.change(leave_one_out).code(), ENOSPC);
  for (int round = 0; round < 3; ++round) {
    const auto before = keeper_.troubled_for();
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    ASSERT_TRUE(keeper_.refresh().ok());
    EXPECT_NE(keeper_.trouble(), "");
    EXPECT_GT(keeper_.troubled_for(), before);
    EXPECT_EQ(keeper_.change(leave_one_out).code(), ENOSPC);
    EXPECT_GT(keeper_.troubled_for(), before);
  }
  store_->set_full(false);
  ASSERT_TRUE(keeper_.refresh().ok());
  ASSERT_TRUE(keeper_.change(leave_one_out).ok());
  EXPECT_EQ(keeper_.trouble(), "");
  EXPECT_EQ(keeper_.troubled_for().count(), 0);

  store_->set_full(true);
  ASSERT_EQ(keeper_.change(leave_one_out).code(), ENOSPC);
  ASSERT_TRUE(keeper_.change(leave_it).ok());
  EXPECT_EQ(keeper_.trouble(), "") << "it is wanted no more";
}

}  // namespace
}  // namespace brickfs
