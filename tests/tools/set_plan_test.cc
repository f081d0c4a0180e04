// SPDX-License-Identifier: Apache-2.0
#include "tools/brickctl/set_plan.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace brickfs {
namespace {

SetMap planned(size_t bricks, uint64_t replicas) {
  std::vector<NamedBrick> named;
  for (size_t i = 0; i < bricks; ++i) named.push_back({std::string("tcp://") + static_cast<char>('a' + i) + ":1", ""});
  std::string why;
  SetMap map;
  map.generation = 1;
  map.wanted = replicas;
  map.places = *plan_places(named, replicas, "home", &why);
  uint8_t id = 0;
  for (MapPlace& place : map.places) {
    for (MapReplica& replica : place.replicas) {
      replica.id[0] = std::byte{++id};
      replica.state = ReplicaState::kInSync;
    }
  }
  return map;
}

// What the holder makes of it.
void carry_out(SetMap& map) {
  for (MapPlace& place : map.places) {
    std::erase_if(place.replicas, [](const MapReplica& replica) { return replica.leaving; });
    for (MapReplica& replica : place.replicas) replica.state = ReplicaState::kInSync;
  }
}

TEST(SetPlan, ReplaceMovesAllCopiesAndIsPlannedOnce) {
  SetMap map = planned(3, 2);
  std::string why;
  const auto plan = plan_replace(map, "tcp://a:1", {"tcp://d:1", ""}, "home", &why);
  ASSERT_TRUE(plan.ok()) << why;
  EXPECT_EQ(plan->fresh.size(), 2u);
  EXPECT_EQ(find_replica(map, plan->fresh[0])->source, "tcp://d:1/home");
  EXPECT_EQ(find_replica(map, plan->fresh[1])->source, "tcp://d:1/home.2");
  EXPECT_TRUE(check_map(map, &why).ok()) << why;
  const SetMap before = map;
  const auto again = plan_replace(map, "tcp://a:1", {"tcp://d:1", ""}, "home", &why);
  ASSERT_TRUE(again.ok()) << why;
  EXPECT_TRUE(again->fresh.empty());
  EXPECT_EQ(again->coming, plan->coming);
  EXPECT_EQ(again->leaving, plan->leaving);
  EXPECT_EQ(map, before);
  EXPECT_EQ(plan_replace(map, "tcp://a:1", {"tcp://e:1", ""}, "home", &why).code(), EINVAL);
}

TEST(SetPlan, DrainKeepsDomainsApart) {
  SetMap map = planned(4, 2);
  std::string why;
  ASSERT_TRUE(plan_drain(map, "tcp://a:1", "home", &why).ok()) << why;
  carry_out(map);
  EXPECT_EQ(map.count_on("tcp://a:1"), 0u);
  for (const MapPlace& place : map.places) {
    ASSERT_EQ(place.replicas.size(), 2u);
    EXPECT_NE(place.replicas[0].domain, place.replicas[1].domain);
  }
  SetMap two = planned(2, 2);
  EXPECT_EQ(plan_drain(two, "tcp://a:1", "home", &why).code(), EINVAL);
}

TEST(SetPlan, AddAndRebalanceSpreadCopies) {
  SetMap map = planned(2, 2);
  std::string why;
  ASSERT_TRUE(plan_add(map, {{"tcp://c:1", ""}, {"tcp://d:1", ""}}, "home", &why).ok()) << why;
  EXPECT_EQ(map.places.size(), 3u);
  EXPECT_TRUE(check_map(map, &why).ok()) << why;
  EXPECT_TRUE(plan_add(map, {{"tcp://c:1", ""}}, "home", &why)->fresh.empty());
  for (int round = 0; round < 5; ++round) {
    ASSERT_TRUE(plan_rebalance(map, "home", &why).ok());
    carry_out(map);
  }
  EXPECT_TRUE(plan_rebalance(map, "home", &why)->coming.empty());
  for (const char* brick : {"tcp://a:1", "tcp://b:1", "tcp://c:1", "tcp://d:1"}) {
    EXPECT_GE(load_of(map, brick), 1u) << brick;
    EXPECT_LE(load_of(map, brick), 2u) << brick;
  }
}

}  // namespace
}  // namespace brickfs
