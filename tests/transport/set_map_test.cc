// SPDX-License-Identifier: Apache-2.0
#include "transport/membership/set_map.h"

#include <gtest/gtest.h>

#include "transport/brick/limits.h"

namespace brickfs {
namespace {

std::vector<NamedBrick> bricks(size_t count) {
  std::vector<NamedBrick> named;
  for (size_t i = 0; i < count; ++i)
    named.push_back({"tcp://" + std::string(1, static_cast<char>('a' + i)) + ":1", ""});
  return named;
}

std::vector<MapPlace> plan(const std::vector<NamedBrick>& named, uint64_t replicas) {
  std::string why;
  auto places = plan_places(named, replicas, "v", &why);
  EXPECT_TRUE(places.ok()) << why;
  return places.ok() ? *places : std::vector<MapPlace>();
}

std::vector<std::vector<std::string>> sources_of(const std::vector<MapPlace>& places) {
  std::vector<std::vector<std::string>> all;
  for (const MapPlace& place : places) {
    all.emplace_back();
    for (const MapReplica& replica : place.replicas) all.back().push_back(replica.source);
  }
  return all;
}

std::string why_no_plan(const std::vector<NamedBrick>& named, uint64_t replicas) {
  std::string why;
  EXPECT_EQ(plan_places(named, replicas, "v", &why).code(), EINVAL);
  return why;
}

using Sources = std::vector<std::vector<std::string>>;

TEST(PlanPlaces, AsManyBricksAsCopiesAreOnePlace) {
  EXPECT_EQ(sources_of(plan(bricks(3), 3)), (Sources{{"tcp://a:1/v", "tcp://b:1/v", "tcp://c:1/v"}}));
  EXPECT_EQ(sources_of(plan(bricks(1), 1)), (Sources{{"tcp://a:1/v"}}));
}

TEST(PlanPlaces, MoreBricksHaveAPlaceEachAndShareTheOthers) {
  EXPECT_EQ(
      sources_of(plan(bricks(3), 2)),
      (Sources{{"tcp://a:1/v", "tcp://b:1/v"}, {"tcp://b:1/v.2", "tcp://c:1/v"}, {"tcp://c:1/v.2", "tcp://a:1/v.2"}}));
  const auto places = plan(bricks(8), 3);
  SetMap map;
  map.places = places;
  for (const NamedBrick& brick : bricks(8)) EXPECT_EQ(map.count_on(brick.brick), 3u);
}

TEST(PlanPlaces, CopiesAreInDifferentDomains) {
  std::vector<NamedBrick> named = bricks(4);
  named[0].domain = named[1].domain = "left";
  named[2].domain = named[3].domain = "right";
  for (const MapPlace& place : plan(named, 2)) EXPECT_NE(place.replicas[0].domain, place.replicas[1].domain);
  EXPECT_EQ(why_no_plan(named, 3), "3 replicas need bricks in 3 domains");
  named[3].domain.clear();
  EXPECT_EQ(plan(named, 3)[0].replicas[2].domain, "tcp://d:1");
}

TEST(PlanPlaces, HasBounds) {
  EXPECT_EQ(why_no_plan(bricks(1), 2), "2 replicas need 2 bricks");
  EXPECT_EQ(why_no_plan(bricks(5), 5), "1 to 4 replicas");
  EXPECT_EQ(why_no_plan(bricks(2), 0), "1 to 4 replicas");
  EXPECT_EQ(why_no_plan(std::vector<NamedBrick>(65), 2), "at most 64 bricks");
}

SetMap sound_map() {
  SetMap map;
  map.generation = 5;
  map.wanted = 2;
  map.places = plan(bricks(3), 2);
  uint8_t id = 0;
  for (MapPlace& place : map.places) {
    for (MapReplica& replica : place.replicas) {
      replica.id[0] = std::byte{++id};
      replica.state = ReplicaState::kInSync;
    }
  }
  return map;
}

std::string why_not(const SetMap& map) {
  std::string why;
  EXPECT_EQ(check_map(map, &why).code(), EUCLEAN);
  return why;
}

TEST(SetMap, ASoundOnePasses) {
  std::string why;
  EXPECT_TRUE(check_map(sound_map(), &why).ok()) << why;
  EXPECT_FALSE(sound_map().is_degraded());
}

TEST(SetMap, EachPlaceHasACopyInSync) {
  SetMap map = sound_map();
  map.places[1].replicas[0].state = ReplicaState::kStale;
  EXPECT_TRUE(map.is_degraded());
  std::string why;
  EXPECT_TRUE(check_map(map, &why).ok()) << why;
  map.places[1].replicas[1].state = ReplicaState::kSyncing;
  EXPECT_EQ(why_not(map), "place 1 has no copy in sync");
  map = sound_map();
  map.places.clear();
  EXPECT_EQ(why_not(map), "a map of 0 places");
}

TEST(SetMap, APlaceIsUntouchedUntilAClientHasBecomeTheHolder) {
  SetMap map = sound_map();
  EXPECT_TRUE(map.is_untouched(map.places[0]));
  map.holder = MapHolder{ClientId{7}, "first", 2, false};
  EXPECT_FALSE(map.is_untouched(map.places[0]));
  map.places[0].added = 3;
  EXPECT_TRUE(map.is_untouched(map.places[0]));
  map.holder->let_go = true;
  EXPECT_TRUE(map.is_untouched(map.places[0]));
  map.holder->epoch = 4;
  EXPECT_FALSE(map.is_untouched(map.places[0]));
  map.holder->epoch = 2;
  map.places[0].made = true;
  EXPECT_FALSE(map.is_untouched(map.places[0]));
  map.places[0].added = map.generation + 1;
  EXPECT_EQ(why_not(map), "a place of a later generation");
}

TEST(SetMap, ItsCopiesAreOnBricksThatOthersReach) {
  for (const char* source : {"file:/root/made_by_a_map,1G", "memory:64M", "etcd://e:2379/v"}) {
    SetMap map = sound_map();
    map.places[1].replicas[0].source = source;
    EXPECT_EQ(why_not(map), std::string(source) + " is no brick that others reach");
  }
  SetMap map = sound_map();
  map.places[1].replicas[0].source = "tcp://a:1+b:1/v";
  EXPECT_EQ(why_not(map), "tcp://a:1+b:1/v is more than one brick");
}

TEST(SetMap, NothingIsThereTwice) {
  SetMap map = sound_map();
  map.places[0].replicas[0].source = map.places[2].replicas[0].source;
  EXPECT_EQ(why_not(map), "tcp://c:1/v.2 is there twice");
  map = sound_map();
  map.places[0].replicas[0].id = map.places[2].replicas[0].id;
  EXPECT_EQ(why_not(map), "two replicas have one id");
}

TEST(SetMap, ItsNumbersAreBounded) {
  SetMap map = sound_map();
  map.wanted = 0;
  EXPECT_EQ(why_not(map), "0 replicas wanted");
  map = sound_map();
  map.places[0].replicas[1].since = 6;
  EXPECT_EQ(why_not(map), "a replica of a later generation");
  map = sound_map();
  map.places.resize(65, map.places[0]);
  EXPECT_EQ(why_not(map), "a map of 65 places");
}

TEST(SetMap, AReplicaIsOnOneBrick) {
  for (const char* source : {"tcp://a:1+b:1/v", "etcd://a/v", "nonsense"}) {
    SetMap map = sound_map();
    map.places[0].replicas[0].source = source;
    EXPECT_FALSE(why_not(map).empty()) << source;
  }
}

}  // namespace
}  // namespace brickfs
