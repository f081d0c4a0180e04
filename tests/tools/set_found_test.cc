// SPDX-License-Identifier: Apache-2.0
#include "tools/brickctl/set_found.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace brickfs {
namespace {

constexpr SetId kSet{std::byte{7}};

FoundCopy found(char brick, size_t place, uint64_t generation, bool clean = false) {
  FoundCopy copy;
  copy.source = std::string("tcp://") + brick + ":20470/v" + (place == 0 ? "" : ".2");
  copy.place = place;
  copy.mark = {kSet, {std::byte(brick), std::byte(place)}, generation, 0};
  copy.boot = BootId{static_cast<uint64_t>(brick)};
  copy.clean = clean;
  return copy;
}

const MapReplica& entry(const SetMap& map, char brick, size_t place = 0) {
  for (const MapReplica& replica : map.places.at(place).replicas) {
    if (replica.id == MemberId{std::byte(brick), std::byte(place)}) return replica;
  }
  static const MapReplica kNone;
  return kNone;
}

RecoveredMap recover(const std::optional<SetMap>& known, const std::vector<FoundCopy>& copies) {
  std::string why;
  auto recovered = recover_map(known, copies, 0, &why);
  EXPECT_TRUE(recovered.ok()) << why;
  return recovered.ok() ? *std::move(recovered) : RecoveredMap();
}

TEST(RecoveredMap, TheNewestIsBelieved) {
  const RecoveredMap made = recover(std::nullopt, {found('a', 0, 4), found('b', 0, 9)});
  EXPECT_TRUE(made.is_needed);
  EXPECT_EQ(made.map.set, kSet);
  EXPECT_EQ(made.map.wanted, 2u);
  EXPECT_EQ(made.map.generation, 10u);
  EXPECT_EQ(entry(made.map, 'a').state, ReplicaState::kStale);
  EXPECT_EQ(entry(made.map, 'b').state, ReplicaState::kInSync);
  EXPECT_EQ(entry(made.map, 'b').marked, 9u);
  EXPECT_TRUE(made.map.places[0].made);
  ASSERT_TRUE(made.map.holder.has_value());  // who may have left something to be settled
  EXPECT_FALSE(made.map.holder->let_go);
  EXPECT_TRUE(made.map.lease_wait);
}

// Of two of one mark nobody knows which has more.
TEST(RecoveredMap, OneIsBelievedUnlessTheVolumeWasUnmounted) {
  RecoveredMap made = recover(std::nullopt, {found('a', 0, 9), found('b', 0, 9)});
  EXPECT_EQ(entry(made.map, 'a').state, ReplicaState::kInSync);
  EXPECT_EQ(entry(made.map, 'b').state, ReplicaState::kStale);
  made = recover(std::nullopt, {found('a', 0, 9, true), found('b', 0, 9, true)});
  EXPECT_EQ(entry(made.map, 'a').state, ReplicaState::kInSync);
  EXPECT_EQ(entry(made.map, 'b').state, ReplicaState::kInSync);
  EXPECT_FALSE(made.map.holder.has_value());
  EXPECT_FALSE(made.map.lease_wait);
}

TEST(RecoveredMap, AnOldMapSaysWhatMarksDoNot) {
  SetMap old = recover(std::nullopt, {found('a', 0, 4, true), found('b', 0, 4, true), found('c', 0, 4, true)}).map;
  old.places[0].replicas[0].domain = "rack";
  old.wanted = 3;
  const RecoveredMap made = recover(old, {found('a', 0, 9, true), found('b', 0, 7, true)});
  EXPECT_TRUE(made.is_needed);
  EXPECT_EQ(made.map.wanted, 3u);
  EXPECT_EQ(entry(made.map, 'a').domain, "rack");
  EXPECT_EQ(entry(made.map, 'a').state, ReplicaState::kInSync);
  EXPECT_EQ(entry(made.map, 'b').state, ReplicaState::kStale);
  EXPECT_EQ(entry(made.map, 'c').state, ReplicaState::kStale);  // it was not found
}

TEST(RecoveredMap, AMapThatIsAsNewIsLeftAlone) {
  const std::vector<FoundCopy> copies{found('a', 0, 4, true), found('b', 0, 4, true)};
  EXPECT_FALSE(recover(recover(std::nullopt, copies).map, copies).is_needed);
}

TEST(RecoveredMap, APlaceWithoutACopyIsRefused) {
  std::string why;
  EXPECT_EQ(recover_map(std::nullopt, {found('a', 1, 4)}, 0, &why).code(), ENODATA);
  FoundCopy first = found('a', 0, 4);
  first.of_places = 2;
  EXPECT_EQ(recover_map(std::nullopt, {first}, 0, &why).code(), ENODATA);
  EXPECT_NE(why.find("place 1 of 2"), std::string::npos) << why;
  EXPECT_EQ(recover_map(std::nullopt, {}, 0, &why).code(), ENODATA);
}

TEST(RecoveredMap, CopiesOfAnotherSetAreNotMixedIn) {
  FoundCopy other = found('b', 0, 9);
  other.mark.set = SetId{std::byte{8}};
  std::string why;
  EXPECT_EQ(recover_map(std::nullopt, {found('a', 0, 4), other}, 0, &why).code(), EINVAL);
  const SetMap known = recover(std::nullopt, {found('a', 0, 4)}).map;
  EXPECT_EQ(entry(recover(known, {found('a', 0, 6), other}).map, 'b').id, MemberId{});
}

}  // namespace
}  // namespace brickfs
