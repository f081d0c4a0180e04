// SPDX-License-Identifier: Apache-2.0
// Replicas of a place that go away and come back while they are used.
#include "transport/volume/mirror.h"

#include "tests/support/replica_bed.h"

namespace brickfs {
namespace {

class Replicas : public testing::ReplicaBed {};

TEST_F(Replicas, EachHasWhatIsWritten) {
  start(2, 2, 0);
  auto set = open();
  ASSERT_NE(set, nullptr);
  ASSERT_TRUE(set->alloc(kData).ok());
  ASSERT_TRUE(write(*set, raw(kData.start), filled(10'000, 5)).ok());
  EXPECT_EQ(*read(*set, raw(kData.start), 10'000), filled(10'000, 5));
  ASSERT_TRUE(set->commit().ok());
  ASSERT_TRUE(set->close().ok());
  EXPECT_TRUE(map_->get()->map.holder->let_go);
  EXPECT_EQ(on_brick('a', raw(kData.start), 10'000), filled(10'000, 5));
  EXPECT_EQ(on_brick('b', raw(kData.start), 10'000), filled(10'000, 5));
}

TEST_F(Replicas, OneThatIsAwayIsLeftOutAndComesBack) {
  start(2, 2, 0);
  auto set = open();
  ASSERT_NE(set, nullptr);
  ASSERT_TRUE(set->alloc(kData).ok());
  ASSERT_TRUE(write(*set, raw(kData.start), filled(kBlockBytes, 1)).ok());
  go_away('b');
  const auto began = std::chrono::steady_clock::now();
  ASSERT_TRUE(write(*set, raw(kData.start) + 4096, filled(4096, 2)).ok());
  EXPECT_LT(std::chrono::steady_clock::now() - began, limits::kLease);
  EXPECT_EQ(entry(1).state, ReplicaState::kStale);
  EXPECT_GT(entry(1).since, 1u);
  const BlockRange fresh{kData.end(), 2};
  ASSERT_TRUE(set->alloc(fresh).ok());
  ASSERT_TRUE(write(*set, raw(fresh.start), filled(4096, 3)).ok());
  ASSERT_TRUE(set->free({block_after(kData.start, 3), 1}).ok());
  EXPECT_TRUE(set->commit().ok());
  come_back('b');
  EXPECT_TRUE(is_in_state(1, ReplicaState::kInSync));
  ASSERT_TRUE(set->close().ok());
  for (const char name : {'a', 'b'}) {
    EXPECT_EQ(on_brick(name, raw(kData.start), 4096), filled(4096, 1)) << name;
    EXPECT_EQ(on_brick(name, raw(kData.start) + 4096, 4096), filled(4096, 2)) << name;
    EXPECT_EQ(on_brick(name, raw(fresh.start), 4096), filled(4096, 3)) << name;
  }
}

TEST_F(Replicas, TheFirstMayGoToo) {
  start(2, 2, 0);
  auto set = open();
  ASSERT_NE(set, nullptr);
  ASSERT_TRUE(set->alloc(kData).ok());
  ASSERT_TRUE(write(*set, raw(kData.start), filled(4096, 1)).ok());
  go_away('a');
  EXPECT_EQ(*read(*set, raw(kData.start), 4096), filled(4096, 1));
  ASSERT_TRUE(write(*set, raw(kData.start), filled(4096, 2)).ok());
  EXPECT_EQ(entry(0).state, ReplicaState::kStale);
  come_back('a');
  ASSERT_TRUE(is_in_state(0, ReplicaState::kInSync));
  go_away('b');
  EXPECT_EQ(*read(*set, raw(kData.start), 4096), filled(4096, 2));
  EXPECT_TRUE(is_in_state(1, ReplicaState::kStale));
}

TEST_F(Replicas, TheLastInSyncIsWaitedFor) {
  start(2, 2, 0);
  auto set = open();
  ASSERT_NE(set, nullptr);
  ASSERT_TRUE(set->alloc(kData).ok());
  ASSERT_TRUE(write(*set, raw(kData.start), filled(4096, 1)).ok());
  go_away('b');
  ASSERT_TRUE(is_in_state(1, ReplicaState::kStale));
  go_away('a');
  std::atomic<bool> done{false};
  std::thread writer([&] {
    EXPECT_TRUE(write(*set, raw(kData.start), filled(4096, 2)).ok());
    done = true;
  });
  std::this_thread::sleep_for(milliseconds(1'500));
  EXPECT_FALSE(done);
  EXPECT_EQ(entry(0).state, ReplicaState::kInSync);
  come_back('a');
  writer.join();
  come_back('b');
  EXPECT_TRUE(is_in_state(1, ReplicaState::kInSync));
}

// The copy must not lose what is written meanwhile.
TEST_F(Replicas, OneIsBroughtUpToDateUnderWrites) {
  start(2, 2, 0);
  auto set = open();
  ASSERT_NE(set, nullptr);
  const BlockRange data{BlockAddress{8 * kBlockBytes}, 24};
  ASSERT_TRUE(set->alloc(data).ok());
  go_away('b');
  ASSERT_TRUE(write(*set, raw(data.start), filled(4096, 1)).ok());
  Writers writers(*set, data);
  std::this_thread::sleep_for(milliseconds(200));
  come_back('b');
  EXPECT_TRUE(is_in_state(1, ReplicaState::kInSync));
  writers.stop();
  ASSERT_TRUE(set->close().ok());
  expect_written(writers, {'a', 'b'});
}

TEST_F(Replicas, AVolatileBrickThatRestartsGetsEverything) {
  start(2, 2, 0);
  auto set = open();
  ASSERT_NE(set, nullptr);
  ASSERT_TRUE(set->alloc(kData).ok());
  ASSERT_TRUE(write(*set, raw(kData.start), filled(kBlockBytes, 4)).ok());
  const BootId boot = entry(1).boot;
  brick('b').restart();
  EXPECT_TRUE(comes_true([&] { return entry(1).boot != boot && entry(1).state == ReplicaState::kInSync; }));
  ASSERT_TRUE(set->close().ok());
  EXPECT_EQ(on_brick('b', raw(kData.start), kBlockBytes), filled(kBlockBytes, 4));
}

TEST_F(Replicas, ADurableBrickThatRestartsStaysInSync) {
  start(2, 2, 64);
  auto set = open();
  ASSERT_NE(set, nullptr);
  ASSERT_TRUE(set->alloc(kData).ok());
  ASSERT_TRUE(set->commit().ok());
  ASSERT_TRUE(write(*set, raw(kData.start), filled(4096, 4)).ok());
  const BootId boot = entry(1).boot;
  brick('b').restart();
  EXPECT_TRUE(comes_true([&] { return entry(1).boot != boot; }));
  EXPECT_EQ(entry(1).state, ReplicaState::kInSync);
  ASSERT_TRUE(set->commit().ok());
  ASSERT_TRUE(set->close().ok());
  EXPECT_EQ(on_brick('b', raw(kData.start), 4096), filled(4096, 4));
}

// One copy is lost while the other is away: as long as that may come back nothing fails.
TEST_F(Replicas, OneThatIsLostIsLeftOutWhenTheOtherIsBack) {
  start(2, 2, 0);
  auto set = open();
  ASSERT_NE(set, nullptr);
  ASSERT_TRUE(set->alloc(kData).ok());
  ASSERT_TRUE(write(*set, raw(kData.start), filled(4096, 1)).ok());
  store_->set_away(true);
  go_away('b');
  brick('a').restart();
  std::atomic<bool> done{false};
  std::thread writer([&] {
    EXPECT_TRUE(write(*set, raw(kData.start), filled(4096, 2)).ok());
    done = true;
  });
  std::thread reader([&] { EXPECT_TRUE(read(*set, raw(kData.start), 4096).ok()); });
  std::this_thread::sleep_for(milliseconds(1'500));
  EXPECT_FALSE(done);
  come_back('b');
  std::this_thread::sleep_for(milliseconds(500));
  store_->set_away(false);
  writer.join();
  reader.join();
  EXPECT_EQ(*read(*set, raw(kData.start), 4096), filled(4096, 2));
  EXPECT_TRUE(is_in_state(0, ReplicaState::kInSync));
}

// One of which waits until it is left out, and the other one would wait for that. Whichever gives in.
TEST_F(Replicas, TwoThatFailedDoNotWaitForEachOther) {
  start(2, 2, 64);
  const auto set = open();
  ASSERT_NE(set, nullptr);
  ASSERT_TRUE(set->alloc(kData).ok());
  ASSERT_TRUE(write(*set, raw(kData.start), filled(4096, 1)).ok());
  ASSERT_TRUE(set->commit().ok());
  ASSERT_TRUE(write(*set, raw(kData.start), filled(4096, 2)).ok());
  store_->set_away(true);
  std::atomic<int> failed{0};
  std::vector<std::thread> committing;
  const auto commit = [&] { failed += set->commit().code() == EIO ? 1 : 0; };
  brick('a').faults().answer(BrickCall::kCommit, EIO);
  committing.emplace_back(commit);
  const bool is_doubted = comes_true([&] { return set->known_map()->absent.size() == 1; });
  const bool is_written = write(*set, raw(kData.start), filled(4096, 3)).ok();
  brick('b').faults().answer(BrickCall::kCommit, EIO);
  committing.emplace_back(commit);
  const bool gives_in = comes_true([&] { return failed > 0; });
  store_->set_away(false);
  for (std::thread& thread : committing) thread.join();
  EXPECT_TRUE(is_doubted && is_written && gives_in);
  EXPECT_EQ(*read(*set, raw(kData.start), 4096), filled(4096, 3));
}

TEST_F(Replicas, AnotherHolderEndsEverything) {
  start(2, 2, 0);
  auto set = open(7);
  ASSERT_NE(set, nullptr);
  ASSERT_TRUE(set->alloc(kData).ok());
  SetMap map = map_->get()->map;
  map.holder->client = ClientId{8};
  map.holder->epoch = ++map.generation;
  map_->restore(map);
  go_away('b');
  EXPECT_EQ(write(*set, raw(kData.start), filled(4096, 2)).code(), ESTALE);
  EXPECT_EQ(set->final_error().code(), ESTALE);
}

// It is from a backup, and calls a copy in sync that may not be so.
TEST_F(Replicas, AnOlderMapIsNotGoneOnFrom) {
  start(2, 2, 0);
  soft_ = milliseconds(3'000);
  auto set = open();
  ASSERT_NE(set, nullptr);
  ASSERT_TRUE(set->alloc(kData).ok());
  const SetMap old = map_->get()->map;
  go_away('b');
  ASSERT_TRUE(write(*set, raw(kData.start), filled(4096, 2)).ok());
  ASSERT_TRUE(is_in_state(1, ReplicaState::kStale));
  map_->restore(old);
  come_back('b');
  std::this_thread::sleep_for(milliseconds(3'000));
  EXPECT_EQ(*read(*set, raw(kData.start), 4096), filled(4096, 2));
  EXPECT_EQ(set->mirror(0).copies().size(), 1u);
  ASSERT_TRUE(set->close().ok());
  EXPECT_EQ(map_->get()->map, old);
  set.reset();
  EXPECT_EQ(try_open().error().code(), EUCLEAN);
}

// On purpose, to have it made anew; or its brick was wiped.
TEST_F(Replicas, ACopyWhoseVolumeIsRemovedIsLeftOut) {
  start(3, 2, 0);
  const auto set = open();
  ASSERT_NE(set, nullptr);
  const BlockRange data{BlockAddress{raw(first_block_of(1).start) + 8 * kBlockBytes}, 4};
  ASSERT_TRUE(set->alloc(data).ok());
  ASSERT_TRUE(write(*set, raw(data.start), filled(4096, 1)).ok());
  size_t index = 0;
  while (!entry(index, 1).source.ends_with("/default.2")) ++index;
  RestartingBrick& removed = *bricks_.at(entry(index, 1).source);
  AdminRequest request;
  request.action = AdminAction::kRemove;
  request.volume = "default.2";
  request.force = true;
  removed.faults().refuse(true);
  removed.faults().lose();
  ASSERT_EQ(removed.service()->administer(request).status, 0);
  removed.faults().refuse(false);
  EXPECT_TRUE(write(*set, raw(data.start), filled(4096, 2)).ok());
  EXPECT_EQ(entry(index, 1).state, ReplicaState::kStale);
  request.action = AdminAction::kCreate;
  request.force = false;
  ASSERT_EQ(removed.service()->administer(request).status, 0);
  EXPECT_TRUE(comes_true([&] { return entry(index, 1).state == ReplicaState::kInSync; }));
  EXPECT_EQ(*read(*set, raw(data.start), 4096), filled(4096, 2));
}

TEST_F(Replicas, TheListOfBlocksIsAskedOfTheOtherCopy) {
  start(2, 2, 0);
  const auto set = open();
  ASSERT_NE(set, nullptr);
  ASSERT_TRUE(set->alloc(kData).ok());
  go_away('a');
  const auto listed = set->list();
  ASSERT_TRUE(listed.ok()) << listed.error().what();
  EXPECT_TRUE(contains_block(*listed, kData.start));
}

// A long copy in one place keeps nothing in the others from being done.
TEST_F(Replicas, PlacesAreBroughtUpToDateSideBySide) {
  start(3, 2, 0);
  const auto set = open();
  ASSERT_NE(set, nullptr);
  const BlockRange many{BlockAddress{8 * kBlockBytes}, 40};
  const BlockRange other{BlockAddress{raw(first_block_of(1).start) + 8 * kBlockBytes}, 4};
  ASSERT_TRUE(set->alloc(many).ok());
  ASSERT_TRUE(set->alloc(other).ok());
  const auto brick_of_copy = [&](size_t index, size_t place) -> RestartingBrick& {
    return *bricks_.at(entry(index, place).source);
  };
  BrickFaults& slow = brick_of_copy(1, 0).faults();
  slow.refuse(true);
  slow.lose();
  ASSERT_TRUE(write(*set, raw(many.start), filled(4096, 1)).ok());
  ASSERT_TRUE(comes_true([&] { return entry(1, 0).state == ReplicaState::kStale; }));
  brick_of_copy(1, 0).restart();  // so it has nothing
  std::vector<PlannedFault> delays;
  for (uint64_t call = 0; call < 1'000; ++call)
    delays.push_back({slow.calls() + 20 + call, PlannedFault::Kind::kDelayed});
  std::atomic<bool> is_slow{true};  // longer for all of them than is waited for anything here
  const auto delay = [&] { comes_true([&] { return !is_slow; }, milliseconds(2'000)); };
  slow.plan(delays, nullptr, delay, nullptr);
  slow.refuse(false);
  ASSERT_TRUE(comes_true([&] { return entry(1, 0).state == ReplicaState::kSyncing; }));
  BrickFaults& gone = brick_of_copy(1, 1).faults();
  gone.refuse(true);
  gone.lose();
  ASSERT_TRUE(write(*set, raw(other.start), filled(4096, 1)).ok());
  EXPECT_TRUE(comes_true([&] { return entry(1, 1).missed != 0; }));
  gone.refuse(false);
  EXPECT_TRUE(comes_true([&] { return entry(1, 1).state == ReplicaState::kInSync; }));
  EXPECT_EQ(entry(1, 0).state, ReplicaState::kSyncing) << "the copy was faster than this test";
  is_slow = false;
  ASSERT_TRUE(set->close().ok());
}

// What is left of three is marked before anything is done without the two others.
TEST_F(Replicas, TwoOfThreeGoTogether) {
  start(3, 3, 64);
  auto set = open();
  ASSERT_NE(set, nullptr);
  ASSERT_TRUE(set->alloc(kData).ok());
  ASSERT_TRUE(set->commit().ok());
  go_away('a');
  go_away('c');
  const auto began = std::chrono::steady_clock::now();
  ASSERT_TRUE(write(*set, raw(kData.start), filled(4096, 2)).ok());
  EXPECT_LT(std::chrono::steady_clock::now() - began, limits::kLease);
  EXPECT_EQ(entry(0).state, ReplicaState::kStale);
  EXPECT_EQ(entry(2).state, ReplicaState::kStale);
  come_back('a');
  come_back('c');
  EXPECT_TRUE(is_in_state(0, ReplicaState::kInSync));
  EXPECT_TRUE(is_in_state(2, ReplicaState::kInSync));
}

// Its bricks seem to be well, and it has not heard from one of them for longer than a lease: another may have the
// volume.
TEST_F(Replicas, AClientThatWasStoppedReadsWhenItHasAskedAgain) {
  start(2, 2, 0);
  soft_ = milliseconds(500);
  auto set = open();
  ASSERT_NE(set, nullptr);
  ASSERT_TRUE(set->alloc(kData).ok());
  ASSERT_TRUE(write(*set, raw(kData.start), filled(4096, 1)).ok());
  brick('b').faults().stop_knowing(std::chrono::steady_clock::now() - limits::kLease);
  std::this_thread::sleep_for(milliseconds(300));
  EXPECT_EQ(read(*set, raw(kData.start), 4096).code(), EIO);
  brick('b').faults().stop_knowing(std::nullopt);
  EXPECT_TRUE(comes_true([&] { return read(*set, raw(kData.start), 4096).ok(); }));
}

TEST_F(Replicas, PlacesShareBricks) {
  start(3, 2, 64);
  auto set = open();
  ASSERT_NE(set, nullptr);
  EXPECT_EQ(set->places(), 3u);
  std::vector<BlockRange> blocks;
  for (size_t place = 0; place < 3; ++place) blocks.push_back({block_after(first_block_of(place).start, 8), 2});
  for (const BlockRange& range : blocks) {
    ASSERT_TRUE(set->alloc(range).ok());
    ASSERT_TRUE(write(*set, raw(range.start), filled(4096, 6)).ok());
  }
  ASSERT_TRUE(set->commit().ok());
  EXPECT_EQ(set->list()->size(), 4u);  // the superblock's too
  ASSERT_TRUE(set->close().ok());
  set.reset();
  set = open();
  ASSERT_NE(set, nullptr);
  for (const BlockRange& range : blocks) EXPECT_EQ(*read(*set, raw(range.start), 4096), filled(4096, 6));
}

// The others may be out of reach, or not be asked anything.
TEST_F(Replicas, APlaceThatIsTakenEndsAll) {
  start(3, 2, 64);
  auto set = open();
  ASSERT_NE(set, nullptr);
  const BlockRange blocks{block_after(first_block_of(1).start, 8), 2};
  ASSERT_TRUE(set->alloc(blocks).ok());
  const auto other = brick('a').make_brick();  // of place 0
  OpenRequest request;
  request.client = ClientId{0x999};
  request.steal = true;
  ASSERT_TRUE(other->open(request, nullptr).ok());
  EXPECT_EQ(read(*set, raw(first_block_of(0).start), 4096).code(), ESTALE);
  const Bytes bytes = filled(4096, 6);
  EXPECT_TRUE(comes_true([&] { return write(*set, raw(blocks.start), bytes).code() == ESTALE; }));
  EXPECT_TRUE(comes_true([&] { return set->member(2).final_error().code() == ESTALE; }));
}

}  // namespace
}  // namespace brickfs
