// SPDX-License-Identifier: Apache-2.0
// Replicas that take the place of others while the volume is used.
#include <atomic>
#include <functional>
#include <thread>
#include <utility>

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
  static uint64_t used_blocks(RestartingBrick& brick) {
    uint64_t used = 0;
    for (const VolumeStatus& volume : brick.service()->numbers().volumes) used += volume.used_blocks;
    return used;
  }
  uint64_t used_blocks(char name) { return used_blocks(brick(name)); }
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
  EXPECT_TRUE(comes_true([&] { return used_blocks('a') == 0; }));  // what was there before is free, and held no more
  writers.stop();
  EXPECT_EQ(*read(*set, raw(data.start), 1), filled(1, writers.last(0)));
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
    std::atomic<int> batches{0};
    std::atomic<bool> goes_on{false};
    brick('c').faults().set_before_transfers([&] {
      if (++batches >= 20) comes_true([&] { return goes_on.load(); });
    });
    move(0, 'c');
    ASSERT_TRUE(comes_true([&] { return batches >= 20; }));
    store_->set_away(true);
    goes_on = true;
    set.reset();
    brick('c').faults().set_before_transfers(nullptr);
    EXPECT_EQ(sources(), (std::vector<std::string>{"a", "b", "c?"}));
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

// It goes all the same.
TEST_F(MovedReplicas, TheAnswerIsLostThatTheOldOneIsGone) {
  start(2, 2, 0);
  add_spare('c', 0);
  auto set = open();
  ASSERT_NE(set, nullptr);
  ASSERT_TRUE(set->alloc(kData).ok());
  move(0, 'c');
  store_->set_away_after([](const SetMap& map) { return map.places[0].replicas.size() == 2; });
  ASSERT_TRUE(become({"b", "c"}));
  store_->set_away(false);
  EXPECT_TRUE(comes_true([&] { return used_blocks('a') == 0; }));
  EXPECT_EQ(set->mirror(0).copies().size(), 2u);
  ASSERT_TRUE(write(*set, raw(kData.start), filled(4096, 3)).ok());
}

// As `brickctl set replace` does, if nobody has the volume.
TEST_F(MovedReplicas, WhoClosesTheSetGivesTheBlocksOfTheOldOneBack) {
  for (const uint64_t store_blocks : {uint64_t{0}, uint64_t{64}}) {
    map_ = std::make_shared<MemoryMap>();
    bricks_.clear();
    start(2, 2, store_blocks);
    add_spare('c', store_blocks);
    auto set = open();
    ASSERT_NE(set, nullptr);
    ASSERT_TRUE(set->alloc(kData).ok());
    ASSERT_TRUE(set->commit().ok());
    move(0, 'c');
    ASSERT_TRUE(become({"b", "c"}));
    ASSERT_TRUE(set->close().ok());
    EXPECT_EQ(used_blocks('a'), 0u);
    set.reset();
  }
}

// Nobody waits for it: neither other copies nor the unmount.
TEST_F(MovedReplicas, TheOldOneDiesWhileItsBlocksAreGivenBack) {
  start(2, 2, 0);
  add_spare('c', 0);
  auto set = open();
  ASSERT_NE(set, nullptr);
  ASSERT_TRUE(set->alloc(kData).ok());
  brick('a').faults().refuse(true);
  brick('a').faults().answer(BrickCall::kFree, ENOTCONN);
  move(0, 'c');
  ASSERT_TRUE(become({"b", "c"}));
  go_away('b');
  ASSERT_TRUE(write(*set, raw(kData.start), filled(4096, 3)).ok());
  ASSERT_TRUE(become({"b?", "c"}));
  come_back('b');
  EXPECT_TRUE(become({"b", "c"}));
  std::atomic<bool> closed{false};
  std::thread closing([&] {
    static_cast<void>(set->close());
    closed = true;
  });
  EXPECT_TRUE(comes_true([&] { return closed.load(); }));
  come_back('a');
  closing.join();
}

// The old one goes away before its blocks are freed.
TEST_F(MovedReplicas, AMapFromBeforeIsRefused) {
  for (const uint64_t store_blocks : {uint64_t{0}, uint64_t{64}}) {
    map_ = std::make_shared<MemoryMap>();
    bricks_.clear();
    start(2, 2, store_blocks);
    add_spare('c', store_blocks);
    auto set = open();
    ASSERT_NE(set, nullptr);
    ASSERT_TRUE(set->alloc(kData).ok());
    const SetMap old = map_->get()->map;
    store_->set_away_after([this](const SetMap& map) {
      if (map.places[0].replicas.front().source[6] != 'a') go_away('a');
      return false;
    });
    move(0, 'c');
    ASSERT_TRUE(become({"b", "c"}));
    ASSERT_TRUE(write(*set, raw(kData.start), filled(4096, 3)).ok());
    set.reset();
    const SetMap newest = map_->get()->map;
    map_->restore(old);
    come_back('a');
    EXPECT_EQ(try_open().error().code(), EUCLEAN);
    EXPECT_NE(refusal_.why.find("backup"), std::string::npos) << refusal_.why;
    map_->restore(newest);
    set = open();
    ASSERT_NE(set, nullptr);
    EXPECT_EQ(*read(*set, raw(kData.start), 4096), filled(4096, 3));
    set.reset();
  }
}

// Until it is read no more whoever takes the volume over finds it in the map: in sync, or as one that was left out.
TEST_F(MovedReplicas, TheOldOneIsReadNoMoreWhenItIsOutOfTheMap) {
  start(2, 2, 0);
  add_spare('c', 0);
  auto set = open();
  ASSERT_NE(set, nullptr);
  ASSERT_TRUE(set->alloc(kData).ok());
  std::atomic<bool> is_known{false};
  std::atomic<bool> is_read{false};
  store_->set_away_after([&](const SetMap& map) {
    const MapReplica& first = map.places[0].replicas.front();
    const bool is_there = first.source[6] == 'a';
    if (is_there && first.state == ReplicaState::kStale && first.since > map.holder->epoch) is_known = true;
    if (!is_there && set->mirror(0).copies().front().first[6] == 'a') is_read = true;
    return false;
  });
  move(0, 'c');
  ASSERT_TRUE(become({"b", "c"}));
  EXPECT_TRUE(is_known);
  EXPECT_FALSE(is_read);
}

// Its holder goes on reading from the old one, cut off from all else, while another client takes the volume over by the
// new ones.
TEST_F(MovedReplicas, WhoTakesTheVolumeOverWaitsUntilTheOldOneIsReadNoMore) {
  start(2, 2, 0);
  add_spare('c', 0);
  soft_ = milliseconds(3'000);
  auto set = open();
  ASSERT_NE(set, nullptr);
  ASSERT_TRUE(set->alloc(kData).ok());
  ASSERT_TRUE(write(*set, raw(kData.start), filled(4096, 1)).ok());
  std::atomic<bool> is_cut_off{false};
  store_->set_away_after([&](const SetMap& map) {
    const MapReplica& first = map.places[0].replicas.front();
    if (first.source[6] == 'a' && first.state == ReplicaState::kInSync) return false;
    go_away('b');
    go_away('c');
    is_cut_off = true;
    return true;
  });
  move(0, 'c');
  ASSERT_TRUE(comes_true([&] { return is_cut_off.load(); }));
  EXPECT_EQ(*read(*set, raw(kData.start), 4096), filled(4096, 1));

  const auto make = [this](const std::string& source, std::string*) -> Result<std::unique_ptr<Brick>> {
    return make_embedded_brick(bricks_.at(source)->service());
  };
  VolumeOptions options;
  options.open.client = ClientId{8};
  options.open.client_name = "next";
  options.open.steal = true;
  auto next = VolumeSet::open(std::make_unique<MemoryMapStore>(map_), make, options, &refusal_);
  ASSERT_TRUE(next.ok()) << refusal_.why;
  ASSERT_TRUE(settle(**next).ok());
  ASSERT_TRUE(write(**next, raw(kData.start), filled(4096, 2)).ok());
  EXPECT_EQ(*read(**next, raw(kData.start), 4096), filled(4096, 2));
  EXPECT_EQ(read(*set, raw(kData.start), 4096).code(), EIO);
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

// What `brickctl set add` does to the map of two bricks, while somebody has the volume.
class AddedPlace : public MovedReplicas {
 protected:
  static MapReplica copy_on(char name) {
    MapReplica replica;
    replica.id[0] = static_cast<std::byte>(name);
    replica.id[1] = std::byte{2};
    replica.domain = std::string("tcp://") + name + ":20470";
    replica.source = replica.domain + "/default.2";
    replica.state = ReplicaState::kInSync;
    return replica;
  }
  void edit(const std::function<void(SetMap&)>& change) {
    for (;;) {
      auto stored = *map_->get();
      ++stored.map.generation;
      change(stored.map);
      if (map_->replace(stored.map, stored.version).ok()) return;
    }
  }
  void add_place() {
    edit([](SetMap& map) { map.places.push_back({{copy_on('a'), copy_on('b')}, false, map.generation}); });
  }
  // What `brickctl set replace` does while it is untouched.
  void move_at_once(char to) {
    edit([to](SetMap& map) {
      ASSERT_TRUE(map.is_untouched(map.places[1]));
      map.places[1].replicas[0] = copy_on(to);
    });
  }
  MapPlace added() const { return map_->get()->map.places[1]; }
  bool is_untouched() const { return map_->get()->map.is_untouched(added()); }
  RestartingBrick& brick_of_added(char name) { return *bricks_.at(copy_on(name).source); }
  void write_to_added(VolumeSet& set) {
    const BlockRange data{block_after(first_block_of(1).start, 8), 2};
    ASSERT_TRUE(set.alloc(data).ok());
    ASSERT_TRUE(write(set, raw(data.start), filled(4096, 9)).ok());
    ASSERT_TRUE(set.commit().ok());
    EXPECT_EQ(*read(set, raw(data.start), 4096), filled(4096, 9));
  }
};

TEST_F(AddedPlace, WaitsForTheNextMountAndMovesAtOnceUntilThen) {
  start(3, 2, 64);
  edit([](SetMap& map) { map.places.resize(1); });
  auto set = open();
  ASSERT_NE(set, nullptr);
  add_place();
  std::this_thread::sleep_for(milliseconds(2'500));  // the holder has looked at the map since
  EXPECT_TRUE(is_untouched());
  EXPECT_EQ(set->places(), 1u);
  move_at_once('c');
  ASSERT_TRUE(set->alloc(kData).ok());
  ASSERT_TRUE(set->close().ok());
  EXPECT_TRUE(is_untouched());
  set.reset();
  set = open();
  ASSERT_NE(set, nullptr);
  EXPECT_EQ(set->places(), 2u);
  EXPECT_TRUE(added().made);
  write_to_added(*set);
  ASSERT_TRUE(set->close().ok());
  EXPECT_EQ(used_blocks(brick_of_added('a')), 0u);
}

// A mount that has not ended its work does not say of a place that it does not know that it is made: it would be taken
// for lost by the next one.
TEST_F(AddedPlace, IsNotMadeByAHolderThatDoesNotKnowIt) {
  start(2, 2, 64);
  edit([](SetMap& map) { map.places.resize(1); });
  auto set = open();
  ASSERT_NE(set, nullptr);
  ASSERT_TRUE(set->alloc(kData).ok());
  store_->set_away(true);
  set.reset();
  edit([](SetMap& map) { map.places[0].made = false; });
  auto unsettled = try_open();
  ASSERT_TRUE(unsettled.ok()) << refusal_.why;
  ASSERT_FALSE((*unsettled)->is_settled());
  add_place();
  ASSERT_TRUE(settle(**unsettled).ok());
  EXPECT_TRUE(map_->get()->map.places[0].made);
  EXPECT_FALSE(added().made);
  EXPECT_TRUE(is_untouched());
  ASSERT_TRUE((*unsettled)->close().ok());
  unsettled->reset();
  set = open();
  ASSERT_NE(set, nullptr);
  EXPECT_TRUE(added().made);
  write_to_added(*set);
}

// Of the map that changes and the mount that claims it one is too late.
TEST_F(AddedPlace, MovesBeforeTheClaimOfAMountOrNotAtOnce) {
  start(3, 2, 64);
  edit([](SetMap& map) { map.places.resize(1); });
  auto first = open();
  ASSERT_NE(first, nullptr);
  add_place();
  ASSERT_TRUE(first->close().ok());
  first.reset();
  bool moved = false;
  VolumeOptions options;
  options.open.client = ClientId{7};
  options.open.client_name = "test";
  const auto make = [&](const std::string& source, std::string*) -> Result<std::unique_ptr<Brick>> {
    if (!std::exchange(moved, true)) move_at_once('c');
    return bricks_.at(source)->make_brick();
  };
  EXPECT_EQ(VolumeSet::open(std::make_unique<MemoryMapStore>(map_), make, options, &refusal_).code(), EBUSY);
  EXPECT_TRUE(is_untouched());
  EXPECT_EQ(used_blocks(brick_of_added('a')), 0u);
  auto set = open();
  ASSERT_NE(set, nullptr);
  EXPECT_FALSE(is_untouched());
  write_to_added(*set);
}

// There was nothing in it: bricks that restart before it is made have lost nothing, nor has the volume.
TEST_F(AddedPlace, LosesNothingWhenItsBricksRestart) {
  for (const uint64_t store_blocks : {uint64_t{0}, uint64_t{64}}) {
    map_ = std::make_shared<MemoryMap>();
    bricks_.clear();
    start(2, 2, store_blocks);
    edit([](SetMap& map) { map.places.resize(1); });
    auto set = open();
    ASSERT_NE(set, nullptr);
    ASSERT_TRUE(set->alloc(kData).ok());
    edit([](SetMap& map) {
      map.places.push_back({{copy_on('a'), copy_on('b')}, false, map.generation});
      for (MapReplica& replica : map.places[1].replicas) replica.boot = BootId{99};
    });
    store_->set_away(true);
    set.reset();
    set = open();
    ASSERT_NE(set, nullptr);
    EXPECT_FALSE(map_->get()->map.tail_lost);
    for (const MapReplica& replica : added().replicas) EXPECT_EQ(replica.state, ReplicaState::kInSync);
    EXPECT_TRUE(added().made);
    write_to_added(*set);
    ASSERT_TRUE(set->close().ok());
  }
}

}  // namespace
}  // namespace brickfs
