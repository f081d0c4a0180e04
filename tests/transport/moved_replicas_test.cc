// SPDX-License-Identifier: Apache-2.0
// Replicas that take the place of others while the volume is used.
#include <atomic>
#include <thread>

#include "tests/support/replica_bed.h"
#include "transport/brick/source.h"
#include "transport/volume/mirror.h"

namespace brickfs {
namespace {

// What `brickctl set replace` does to the map: a copy of place 0 on `to` instead of the one with that index.
class MovedReplicas : public testing::ReplicaBed {
 protected:
  void add_spare(char name, uint64_t store_blocks) {
    bricks_[std::string("tcp://") + name + ":20470/default"] =
        std::make_unique<RestartingBrick>(kBlocks, store_blocks, "default");
  }
  void move(size_t index, char to) {
    for (;;) {
      auto stored = *map_->get();
      auto& replicas = stored.map.places[0].replicas;
      replicas[index].leaving = true;
      MapReplica fresh;
      fresh.id[0] = static_cast<std::byte>(to);
      fresh.source = std::string("tcp://") + to + ":20470/default";
      fresh.domain = fresh.source;
      replicas.push_back(fresh);
      ++stored.map.generation;
      if (map_->replace(stored.map, stored.version).ok()) return;
    }
  }
  std::vector<std::string> sources() const {
    std::vector<std::string> all;
    const SetMap map = map_->get()->map;
    for (const MapReplica& replica : map.places[0].replicas) {
      all.push_back(replica.source.substr(6, 1) + (replica.state == ReplicaState::kInSync ? "" : "?"));
    }
    return all;
  }
  bool become(const std::vector<std::string>& wanted) {
    return comes_true([&] { return sources() == wanted; });
  }
  uint64_t used_blocks(char name) {
    for (const VolumeStatus& volume : brick(name).service()->numbers().volumes) {
      if (volume.name == kDefaultVolume) return volume.used_blocks;
    }
    return 0;
  }
};

// A copy that is new in the map is taken up, and the one that leaves goes, while all is written on.
TEST_F(MovedReplicas, OneTakesThePlaceOfAnotherUnderWrites) {
  start(2, 2, 0);
  add_spare('c', 0);
  auto set = open();
  ASSERT_NE(set, nullptr);
  const BlockRange data{BlockAddress{8 * kBlockBytes}, 24};
  ASSERT_TRUE(set->alloc(data).ok());
  Writers writers(*set, data);
  move(0, 'c');
  EXPECT_TRUE(become({"b", "c"}));
  std::this_thread::sleep_for(milliseconds(100));
  writers.stop();
  EXPECT_EQ(*read(*set, raw(data.start), 1), filled(1, writers.last(0)));
  // What was there before is free, and held no more.
  EXPECT_EQ(used_blocks('a'), 0u);
  ASSERT_TRUE(set->close().ok());
  expect_written(writers, {'b', 'c'});
}

// A copy that leaves serves until as many others are in sync as are wanted.
TEST_F(MovedReplicas, TheOldOneStaysUntilTheNewOneIsInSync) {
  start(2, 2, 0);
  add_spare('c', 0);
  brick('c').faults().refuse(true);
  auto set = open();
  ASSERT_NE(set, nullptr);
  ASSERT_TRUE(set->alloc(kData).ok());
  move(0, 'c');
  std::this_thread::sleep_for(milliseconds(3'000));
  ASSERT_TRUE(write(*set, raw(kData.start), filled(4096, 3)).ok());
  EXPECT_EQ(sources(), (std::vector<std::string>{"a", "b", "c?"}));
  come_back('c');
  EXPECT_TRUE(become({"b", "c"}));
  go_away('b');
  EXPECT_EQ(*read(*set, raw(kData.start), 4096), filled(4096, 3));
  EXPECT_TRUE(become({"b?", "c"}));
  come_back('b');
  EXPECT_TRUE(become({"b", "c"}));
}

// The holder ends in the middle of a copy, and the next one completes it.
TEST_F(MovedReplicas, TheNextHolderCompletesIt) {
  for (const uint64_t store_blocks : {uint64_t{0}, uint64_t{64}}) {
    map_ = std::make_shared<MemoryMap>();
    bricks_.clear();
    start(2, 2, store_blocks);
    add_spare('c', store_blocks);
    auto set = open(7);
    ASSERT_NE(set, nullptr);
    const BlockRange data{BlockAddress{8 * kBlockBytes}, 48};
    ASSERT_TRUE(set->alloc(data).ok());
    for (uint64_t block = 0; block < data.count; ++block) {
      ASSERT_TRUE(write(*set, raw(block_after(data.start, block)), filled(4096, 1 + static_cast<int>(block))).ok());
    }
    ASSERT_TRUE(set->commit().ok());
    move(0, 'c');
    ASSERT_TRUE(comes_true([&] { return entry(2).state == ReplicaState::kSyncing; }));
    ASSERT_TRUE(comes_true([&] { return used_blocks('c') > 1; }));
    store_->set_away(true);
    set.reset();
    const bool was_interrupted = sources() == std::vector<std::string>{"a", "b", "c?"};
    EXPECT_TRUE(was_interrupted) << "the copy was faster than this test";
    set = open(7);
    ASSERT_NE(set, nullptr);
    EXPECT_TRUE(become({"b", "c"}));
    ASSERT_TRUE(set->close().ok());
    for (uint64_t block = 0; block < data.count; ++block) {
      EXPECT_EQ(on_brick('c', raw(block_after(data.start, block)), 4096), filled(4096, 1 + static_cast<int>(block)));
    }
    set.reset();
  }
}

// Place 0 of several, on durable bricks: its commits write into its first block.
TEST_F(MovedReplicas, ThePlaceWithTheCommitRecordsMoves) {
  start(3, 2, 64);
  add_spare('d', 64);
  auto set = open();
  ASSERT_NE(set, nullptr);
  uint64_t position = 3;
  set->set_commit_position([&] { return position; });
  ASSERT_TRUE(set->alloc(kData).ok());
  ASSERT_TRUE(write(*set, raw(kData.start), filled(4096, 3)).ok());
  ASSERT_TRUE(set->commit().ok());
  move(0, 'd');
  EXPECT_TRUE(become({"b", "d"}));
  EXPECT_TRUE(comes_true([&] { return used_blocks('a') == 0; }));  // freed once it is out of the map
  ASSERT_TRUE(write(*set, raw(kData.start), filled(4096, 4)).ok());
  ASSERT_TRUE(set->commit().ok());
  set->set_commit_position(nullptr);
  ASSERT_TRUE(set->close().ok());
  EXPECT_EQ(on_brick('d', raw(kData.start), 4096), filled(4096, 4));
}

}  // namespace
}  // namespace brickfs
