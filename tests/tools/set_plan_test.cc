// SPDX-License-Identifier: Apache-2.0
#include "tools/brickctl/set_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
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
    place.made = true;
  }
  map.holder = MapHolder{ClientId{7}, "holder", map.generation, false};
  return map;
}

// A place more, on `brick` and the one that has least, which the holder does not know.
void add_place(SetMap& map, const std::string& brick) {
  std::string why;
  ASSERT_TRUE(plan_add(map, {{brick, ""}}, "home", &why).ok()) << why;
  ++map.generation;
  ASSERT_TRUE(check_map(map, &why).ok()) << why;
}

std::vector<std::string> sources_of(const MapPlace& place) {
  std::vector<std::string> sources;
  for (const MapReplica& replica : place.replicas) sources.push_back(replica.source);
  return sources;
}

bool all_last(const MapPlace& place) {
  return std::ranges::all_of(place.replicas, [](const MapReplica& replica) {
    return replica.state == ReplicaState::kInSync && !replica.leaving && replica.since == 0;
  });
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
  ++map.generation;
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

TEST(SetPlan, ABrickIsKnownByEachOfItsAddresses) {
  SetMap map = planned(2, 2);
  map.places[0].replicas[0].source = "rdma://a:20470,a2:20470/home";
  for (const char* name : {"rdma://a:20470", "rdma://a2:20470", "rdma://a2:20470,a:20470", "rdma://a:20470,a3:20470"})
    EXPECT_EQ(name_in_map(map, name), "rdma://a:20470,a2:20470");
  for (const char* name : {"rdma://a:20471", "tcp://a:20470", "rdma://c:20470", "rdma://a:20470,a2:20470", "tcp://b:1"})
    EXPECT_EQ(name_in_map(map, name), name);
}

// What nobody has made is moved by the map alone: there is nothing that a holder would have to copy, or could.
TEST(SetPlan, ACopyOfAPlaceThatIsUntouchedMovesAtOnce) {
  SetMap map = planned(2, 2);
  add_place(map, "tcp://c:1");
  ASSERT_EQ(sources_of(map.places[1]), (std::vector<std::string>{"tcp://c:1/home", "tcp://a:1/home.2"}));
  const MemberId old = map.places[1].replicas[0].id;
  std::string why;
  const auto plan = plan_replace(map, "tcp://c:1", {"tcp://d:1", ""}, "home", &why);
  ASSERT_TRUE(plan.ok()) << why;
  EXPECT_EQ(plan->moved, 1u);
  EXPECT_EQ(plan->fresh.size(), 1u);
  EXPECT_TRUE(plan->coming.empty());
  EXPECT_TRUE(plan->leaving.empty());
  EXPECT_EQ(sources_of(map.places[1]), (std::vector<std::string>{"tcp://d:1/home", "tcp://a:1/home.2"}));
  EXPECT_TRUE(all_last(map.places[1]));
  EXPECT_EQ(find_replica(map, old), nullptr);  // a mark of the former one is not taken for the new one's
  EXPECT_TRUE(check_map(map, &why).ok()) << why;
  const SetMap before = map;
  const auto again = plan_replace(map, "tcp://c:1", {"tcp://d:1", ""}, "home", &why);
  ASSERT_TRUE(again.ok()) << why;
  EXPECT_EQ(again->moved, 0u);
  EXPECT_TRUE(again->fresh.empty());
  EXPECT_EQ(map, before);
}

// Of one brick some copies may have to be copied, and others not.
TEST(SetPlan, OnlyTheCopiesOfUntouchedPlacesMoveAtOnce) {
  SetMap map = planned(3, 2);
  add_place(map, "tcp://d:1");
  ASSERT_EQ(sources_of(map.places[3]), (std::vector<std::string>{"tcp://d:1/home", "tcp://a:1/home.3"}));
  std::string why;
  const auto plan = plan_drain(map, "tcp://a:1", "home", &why);
  ASSERT_TRUE(plan.ok()) << why;
  EXPECT_EQ(plan->moved, 1u);
  EXPECT_EQ(plan->leaving.size(), 2u);
  EXPECT_EQ(plan->coming.size(), 2u);
  EXPECT_EQ(map.places[3].replicas.size(), 2u);
  EXPECT_TRUE(all_last(map.places[3]));
  EXPECT_NE(map.places[3].replicas[0].domain, map.places[3].replicas[1].domain);
  EXPECT_TRUE(check_map(map, &why).ok()) << why;
  carry_out(map);
  EXPECT_EQ(map.count_on("tcp://a:1"), 0u);
}

TEST(SetPlan, RebalanceMovesUntouchedPlacesAtOnce) {
  SetMap map = planned(2, 2);
  for (uint8_t id : {11, 13, 15}) {
    MapPlace& place = map.places.emplace_back(map.places[0]);
    for (size_t i = 0; i < 2; ++i) {
      MapReplica& replica = place.replicas[i];
      replica.id[0] = std::byte{static_cast<uint8_t>(id + i)};
      if (id == 11) replica.domain = i == 0 ? "tcp://c:1" : "tcp://d:1";
      replica.source = replica.domain + "/home" + (id == 11 ? "" : "." + std::to_string(id));
    }
    if (id == 11) continue;
    place.made = false;
    place.added = ++map.generation;
  }
  ASSERT_EQ(load_of(map, "tcp://a:1"), 3u);
  ASSERT_EQ(load_of(map, "tcp://d:1"), 1u);
  std::string why;
  const auto plan = plan_rebalance(map, "home", &why);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->moved, 1u);
  EXPECT_EQ(plan->leaving.size(), 1u);
  for (const char* brick : {"tcp://a:1", "tcp://b:1", "tcp://c:1", "tcp://d:1"}) {
    EXPECT_EQ(load_of(map, brick), 2u) << brick;
  }
  EXPECT_TRUE(check_map(map, &why).ok()) << why;
}

// A client that has become the holder since may be about to make the place, or have died while it did.
TEST(SetPlan, APlaceThatAHolderHasKnownIsNotUntouched) {
  SetMap map = planned(2, 2);
  add_place(map, "tcp://c:1");
  EXPECT_TRUE(map.is_untouched(map.places[1]));
  EXPECT_FALSE(map.is_untouched(map.places[0]));
  map.holder = MapHolder{ClientId{8}, "next", ++map.generation, false};
  for (const bool let_go : {false, true}) {
    map.holder->let_go = let_go;
    SetMap edited = map;
    std::string why;
    const auto plan = plan_replace(edited, "tcp://c:1", {"tcp://d:1", ""}, "home", &why);
    ASSERT_TRUE(plan.ok()) << why;
    EXPECT_EQ(plan->moved, 0u);
    EXPECT_EQ(plan->coming.size(), 1u);
    EXPECT_EQ(plan->leaving.size(), 1u);
    EXPECT_TRUE(edited.places[1].replicas[0].leaving);
    EXPECT_EQ(edited.places[1].replicas[2].state, ReplicaState::kStale);
  }
}

// Of a new set nobody has had.
TEST(SetPlan, ASetWithoutAHolderIsUntouched) {
  SetMap map = planned(3, 2);
  map.holder.reset();
  for (MapPlace& place : map.places) place.made = false;
  std::string why;
  const auto plan = plan_replace(map, "tcp://a:1", {"tcp://d:1", ""}, "home", &why);
  ASSERT_TRUE(plan.ok()) << why;
  EXPECT_EQ(plan->moved, 2u);
  EXPECT_EQ(map.count_on("tcp://a:1"), 0u);
  for (const MapPlace& place : map.places) EXPECT_TRUE(all_last(place));
}

}  // namespace
}  // namespace brickfs
