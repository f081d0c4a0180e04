// SPDX-License-Identifier: Apache-2.0
#include "tools/brickctl/set_look.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/support/memory_map_store.h"
#include "tests/support/tcp_test_brick.h"
#include "transport/volume/volume_client.h"

namespace brickfs {
namespace {

MapReplica copy_of(uint8_t id, const std::string& source, ReplicaState state) {
  MapReplica replica;
  replica.id[0] = std::byte{id};
  replica.source = source;
  replica.state = state;
  replica.boot = BootId{1};
  return replica;
}

SetMap mounted() {
  SetMap map;
  map.generation = 5;
  map.wanted = 2;
  map.holder = MapHolder{ClientId{7}, "holder", 3, false};
  map.places = {
      {{copy_of(1, "tcp://a:1/v", ReplicaState::kInSync), copy_of(2, "tcp://b:1/v", ReplicaState::kInSync)}, true}};
  return map;
}

// All bricks answer, in the boot that the map knows, and have something.
ReplicaLooks answers(const SetMap& map) {
  ReplicaLooks looks;
  BrickStat stat;
  stat.boot = BootId{1};
  stat.durability = Durability::kDurable;
  stat.volume_used_blocks = 1;
  for (const MapPlace& place : map.places) {
    for (const MapReplica& replica : place.replicas) looks[replica.source].stat = stat;
  }
  return looks;
}

using Lines = std::vector<std::string>;

TEST(SetVerdict, NothingIsSaidOfWhatIsWell) {
  const SetVerdict verdict = judge_set(mounted(), answers(mounted()));
  EXPECT_EQ(verdict.exit_code, EXIT_SUCCESS);
  EXPECT_EQ(verdict.lines, Lines());
  EXPECT_EQ(verdict.notes, Lines());
  EXPECT_TRUE(all_in_sync(mounted()));
}

// As while one takes the place of another, which serves until then.
TEST(SetVerdict, ACopyBesideThoseWantedThatIsNotInSyncIsTold) {
  SetMap map = mounted();
  map.places[0].replicas[0].leaving = true;
  map.places[0].replicas.push_back(copy_of(3, "tcp://c:1/v", ReplicaState::kStale));
  SetVerdict verdict = judge_set(map, answers(map));
  EXPECT_EQ(verdict.exit_code, EXIT_SUCCESS);
  EXPECT_EQ(verdict.lines, Lines());
  EXPECT_EQ(verdict.notes, (Lines{"place 0: 2 copies are in sync, as many as are wanted, and 1 not yet"}));
  EXPECT_FALSE(all_in_sync(map));
  map.places[0].replicas[1].state = ReplicaState::kStale;
  verdict = judge_set(map, answers(map));
  EXPECT_EQ(verdict.exit_code, kSetDegraded);
  EXPECT_EQ(verdict.lines, (Lines{"place 0: 1 of 2 copies are in sync"}));
  EXPECT_EQ(verdict.notes, Lines());
}

TEST(SetVerdict, APlaceThatWaitsForTheNextMountIsTold) {
  SetMap map = mounted();
  map.places.push_back(
      {{copy_of(4, "tcp://c:1/v", ReplicaState::kInSync), copy_of(5, "tcp://a:1/v.2", ReplicaState::kInSync)}, false});
  SetVerdict verdict = judge_set(map, answers(map));
  EXPECT_EQ(verdict.exit_code, EXIT_SUCCESS);
  EXPECT_EQ(verdict.notes, (Lines{"place 1: not in use yet: a place is made when the volume is mounted"}));
  map.holder->let_go = true;  // nobody has to mount it anew
  EXPECT_EQ(judge_set(map, answers(map)).notes, Lines());
}

TEST(SetVerdict, AVolatileBrickThatHasRestartedHasLostWhatWasThere) {
  SetMap map = mounted();
  ReplicaLooks looks = answers(map);
  looks["tcp://a:1/v"].stat->boot = BootId{2};
  looks["tcp://a:1/v"].stat->durability = Durability::kVolatile;
  EXPECT_EQ(judge_set(map, looks).exit_code, kSetDegraded);
  map.places[0].made = false;
  EXPECT_EQ(judge_set(map, looks).exit_code, EXIT_SUCCESS);
}

// Its first block is on each copy of a place that was made.
TEST(SetVerdict, ADurableBrickThatWasWipedHasLostWhatWasThere) {
  SetMap map = mounted();
  ReplicaLooks looks = answers(map);
  looks["tcp://a:1/v"].stat->volume_used_blocks = 0;
  SetVerdict verdict = judge_set(map, looks);
  EXPECT_EQ(verdict.exit_code, kSetDegraded);
  EXPECT_EQ(verdict.lines, (Lines{"place 0: 1 of 2 copies in sync cannot be had now"}));
  looks["tcp://b:1/v"].stat->volume_used_blocks = 0;
  verdict = judge_set(map, looks);
  EXPECT_EQ(verdict.exit_code, kSetBroken);
  EXPECT_EQ(verdict.lines, (Lines{"place 0: no copy in sync can be had now"}));
  map.places[0].made = false;
  EXPECT_EQ(judge_set(map, looks).exit_code, EXIT_SUCCESS);
}

// A mount would refuse it, or leave it out.
TEST(SetVerdict, WhatNoMountTakesIsNotInSync) {
  SetMap map = mounted();
  map.set[0] = std::byte{9};
  map.holder->let_go = true;
  ReplicaLooks looks = answers(map);
  const auto mark_of = [&](size_t index, uint64_t generation) {
    return ReplicaMark{map.set, map.places[0].replicas[index].id, generation, 0};
  };
  looks.at("tcp://a:1/v").mark = mark_of(0, 5);
  looks.at("tcp://b:1/v").mark = mark_of(1, 3);
  EXPECT_EQ(judge_set(map, looks).exit_code, EXIT_SUCCESS);
  looks.at("tcp://b:1/v").mark = mark_of(1, 2);
  SetVerdict verdict = judge_set(map, looks);
  EXPECT_EQ(verdict.exit_code, kSetDegraded);
  EXPECT_EQ(verdict.lines[0], "place 0: tcp://b:1/v is of an older store, of generation 2 of the map, and was at 3");
  looks.at("tcp://b:1/v").mark = mark_of(1, 6);
  verdict = judge_set(map, looks);
  EXPECT_EQ(verdict.exit_code, kSetBroken);
  EXPECT_TRUE(is_outdated(map, looks));
  looks.at("tcp://b:1/v").mark = mark_of(0, 4);
  verdict = judge_set(map, looks);
  EXPECT_EQ(verdict.exit_code, kSetDegraded);
  EXPECT_EQ(verdict.lines[0], "place 0: tcp://b:1/v belongs to another volume");
}

// Its holder has left a copy out since the map was loaded, and marked the others.
TEST(SetLook, AMapThatHasChangedMeanwhileIsNoOldOne) {
  testing::TcpTestBrick brick(testing::memory_config(8));
  SetMap map = mounted();
  MapReplica& there = map.places[0].replicas[0];
  there.source = "tcp://127.0.0.1:" + std::to_string(brick.port()) + "/default";
  map.places[0].replicas.pop_back();
  VolumeOptions options;
  options.open = testing::request_for(1);
  const auto replica = VolumeClient::open(brick.connect(), options, nullptr);
  ASSERT_TRUE(replica.ok());
  ASSERT_TRUE((*replica)->alloc(first_block_of(0)).ok());
  ASSERT_TRUE(write_replica_mark(**replica, 0, {map.set, there.id, map.generation + 1}, Pace::kWaits).ok());

  const auto kept = std::make_shared<MemoryMap>();
  kept->restore(map);
  MemoryMapStore store(kept);
  SetMap seen = map;
  EXPECT_TRUE(is_outdated(seen, look_at_all(store, seen, {})));  // of a backup
  SetMap later = map;
  ++later.generation;
  kept->restore(later);
  const ReplicaLooks looks = look_at_all(store, seen, {});
  EXPECT_EQ(seen.generation, later.generation);
  EXPECT_FALSE(is_outdated(seen, looks));
  EXPECT_EQ(judge_set(seen, looks).lines, judge_set(later, look_at_all(later, {})).lines);
}

}  // namespace
}  // namespace brickfs
