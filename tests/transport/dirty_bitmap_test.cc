// SPDX-License-Identifier: Apache-2.0
// What a replica has missed is known when it comes back: to the client that left it out, and to the next one.
#include "transport/volume/dirty_bitmap.h"

#include <functional>

#include "tests/support/replica_bed.h"
#include "transport/volume/mirror.h"

namespace brickfs {
namespace {

constexpr SetId kSet{std::byte{1}};

BlockRange block(uint64_t number) { return {BlockAddress{number * kBlockBytes}, 1}; }

struct Written {
  std::vector<std::pair<uint64_t, size_t>> pieces;  // address, length
  Status answer;
  DirtyBitmap::Write writer() {
    return [this](std::span<const Piece> all, const Interruption*) {
      for (const Piece& piece : all) pieces.emplace_back(piece.address, piece.local.front().length_bytes);
      return answer;
    };
  }
};

TEST(DirtyBitmap, NeighboursAreNotedInOnePieceAndNothingTwice) {
  DirtyBitmap bitmap(kSet, 0, 7);
  Written written;
  const std::vector<BlockRange> first{{BlockAddress{8 * kBlockBytes}, 3}};
  ASSERT_TRUE(bitmap.note(first, written.writer(), nullptr).ok());
  const uint64_t bytes = kBitmapOffset + kBitmapHeaderBytes;
  EXPECT_EQ(written.pieces, (std::vector<std::pair<uint64_t, size_t>>{{bytes + 8, 3}}));
  const std::vector<BlockRange> more{{BlockAddress{7 * kBlockBytes}, 6}};
  EXPECT_FALSE(bitmap.has(more));
  written.pieces.clear();
  ASSERT_TRUE(bitmap.note(more, written.writer(), nullptr).ok());
  EXPECT_EQ(written.pieces, (std::vector<std::pair<uint64_t, size_t>>{{bytes + 7, 1}, {bytes + 11, 2}}));
  EXPECT_TRUE(bitmap.has(more));
}

TEST(DirtyBitmap, WhatCouldNotBeNotedIsNot) {
  DirtyBitmap bitmap(kSet, 0, 7);
  Written written;
  written.answer = Error(EIO, "test");
  const BlockRange one = block(8);
  EXPECT_EQ(bitmap.note(std::span(&one, 1), written.writer(), nullptr).code(), EIO);
  EXPECT_FALSE(bitmap.has(std::span(&one, 1)));
}

TEST(DirtyBitmap, BlocksFarApartShareAByte) {
  DirtyBitmap bitmap(kSet, 1, 7);
  const BlockAddress start = first_block_of(1).start;
  const BlockRange noted{block_after(start, 5), 1};
  bitmap.insert(std::span(&noted, 1));
  const std::vector<BlockRange> listed{{start, 10}, {block_after(start, kBitmapBlocks), 10}};
  EXPECT_EQ(bitmap.among(listed).ranges(),
            (std::vector<BlockRange>{noted, {block_after(start, kBitmapBlocks + 5), 1}}));
}

// Two copies on a and b, of blocks with 1s everywhere, which the last client let go. What was copied to b is told from
// what was not by 9s that somebody puts there: copies that are in sync have been so long enough to have no rows.
class Missed : public testing::ReplicaBed {
 protected:
  Missed() { clients_end_ = true; }

  static constexpr int kOld = 1;
  static constexpr int kNew = 2;
  static constexpr int kPlanted = 9;
  static constexpr BlockRange kFresh{kData.end(), 1};
  static uint64_t address(uint64_t block) { return raw(block_after(kData.start, block)); }

  std::unique_ptr<VolumeSet> begin(uint64_t store_blocks) {
    start(2, 2, store_blocks);
    auto set = open(7);
    EXPECT_TRUE(set->alloc(kData).ok());
    for (uint64_t i = 0; i < kData.count; ++i) EXPECT_TRUE(write(*set, address(i), filled(4096, kOld)).ok());
    EXPECT_TRUE(set->commit().ok());
    EXPECT_TRUE(set->close().ok());
    set.reset();
    set = open(7);
    EXPECT_TRUE(set->is_settled());
    return set;
  }
  void crash(std::unique_ptr<VolumeSet>& set) {
    store_->set_away(true);
    set.reset();
  }
  // b goes, and misses what is written to block 1.
  void leave_out(VolumeSet& set) {
    go_away('b');
    ASSERT_TRUE(write(set, address(1), filled(4096, kNew)).ok());
    ASSERT_EQ(entry(1).state, ReplicaState::kStale);
  }
  // The same; b's store, as restart_from_commit() brings it back, has not a block that was committed before that.
  void leave_out_behind_fresh(VolumeSet& set) {
    brick('b').remember_commits();
    brick('b').faults().set_after_commit(nullptr);
    ASSERT_TRUE(set.alloc(kFresh).ok());
    ASSERT_TRUE(set.commit().ok());
    ASSERT_NO_FATAL_FAILURE(leave_out(set));
  }
  bool is_noted() {
    return comes_true([&] { return entry(1).missed != 0; });
  }
  // To block 2 of b.
  void plant() { write_past_holder(*make_embedded_brick(brick('b').service()), address(2), filled(4096, kPlanted)); }
  // The next client has a bitmap in the map that is not b's, and copies everything.
  void expect_notes_not_believed(const std::function<void(MapReplica&)>& edit) {
    auto set = begin(0);
    ASSERT_NO_FATAL_FAILURE(leave_out(*set));
    ASSERT_TRUE(is_noted());
    crash(set);
    SetMap map = map_->get()->map;
    edit(map.places[0].replicas[1]);
    map_->restore(map);
    ASSERT_NO_FATAL_FAILURE(plant());
    set = open(8);
    ASSERT_NE(set, nullptr);
    come_back('b');
    ASSERT_NO_FATAL_FAILURE(expect_back(set, true));
  }
  // b has what it missed. `all`: and all else was copied, too.
  void expect_back(std::unique_ptr<VolumeSet>& set, bool all) {
    ASSERT_TRUE(is_in_state(1, ReplicaState::kInSync));
    EXPECT_EQ(entry(1).missed, 0u);
    ASSERT_TRUE(set->close().ok());
    EXPECT_EQ(on_brick('b', address(0), 4096), filled(4096, kOld));
    EXPECT_EQ(on_brick('b', address(1), 4096), filled(4096, kNew));
    EXPECT_EQ(on_brick('b', address(2), 4096), filled(4096, all ? kOld : kPlanted));
  }
};

TEST_F(Missed, ADurableBrickThatRestartsGetsWhatItMissedAndHadNotCommitted) {
  auto set = begin(64);
  ASSERT_TRUE(write(*set, address(3), filled(4096, 5)).ok());
  ASSERT_NO_FATAL_FAILURE(leave_out(*set));
  brick('b').restart();
  ASSERT_NO_FATAL_FAILURE(plant());
  come_back('b');
  ASSERT_NO_FATAL_FAILURE(expect_back(set, false));
  EXPECT_EQ(on_brick('b', address(3), 4096), filled(4096, 5));
}

// What was freed and allocated and not committed is not there after the restart, or still.
TEST_F(Missed, ADurableBrickThatRestartsHasTheRightBlocks) {
  auto set = begin(64);
  const BlockRange fresh{kData.end(), 1};
  const BlockRange reborn{block_after(kData.start, 3), 1};
  brick('b').remember_commits();
  ASSERT_TRUE(set->alloc(fresh).ok());
  ASSERT_TRUE(set->free(reborn).ok());
  ASSERT_TRUE(set->alloc(reborn).ok());
  ASSERT_NO_FATAL_FAILURE(leave_out(*set));
  brick('b').restart_from_commit();
  ASSERT_NO_FATAL_FAILURE(plant());
  come_back('b');
  ASSERT_NO_FATAL_FAILURE(expect_back(set, false));
  EXPECT_EQ(on_brick('b', raw(fresh.start), 4096), filled(4096, 0));
  EXPECT_EQ(on_brick('b', raw(reborn.start), 4096), filled(4096, 0));
}

TEST_F(Missed, TheNextClientKnowsIt) {
  for (const uint64_t store_blocks : {uint64_t{0}, uint64_t{64}}) {
    for (const bool crashes : {false, true}) {
      SCOPED_TRACE(::testing::Message() << store_blocks << " blocks of store, " << (crashes ? "crash" : "close"));
      map_ = std::make_shared<MemoryMap>();
      bricks_.clear();
      auto set = begin(store_blocks);
      const int third = store_blocks > 0 ? 5 : kOld;
      ASSERT_TRUE(write(*set, address(3), filled(4096, third)).ok());
      ASSERT_NO_FATAL_FAILURE(leave_out(*set));
      ASSERT_TRUE(is_noted());
      // What is written from now on is noted before it is acknowledged.
      ASSERT_TRUE(write(*set, address(0), filled(4096, 3)).ok());
      const BlockRange fresh{kData.end(), 1};
      ASSERT_TRUE(set->alloc(fresh).ok());
      if (store_blocks > 0) brick('b').restart();
      if (crashes) {
        crash(set);
      } else {
        ASSERT_TRUE(set->commit().ok());
        ASSERT_TRUE(set->close().ok());
        set.reset();
      }
      ASSERT_NO_FATAL_FAILURE(plant());
      set = open(8);
      ASSERT_NE(set, nullptr);
      EXPECT_NE(entry(1).missed, 0u);
      ASSERT_TRUE(write(*set, address(0), filled(4096, kOld)).ok());
      come_back('b');
      ASSERT_NO_FATAL_FAILURE(expect_back(set, false));
      EXPECT_EQ(on_brick('b', address(3), 4096), filled(4096, third));
      EXPECT_EQ(on_brick('b', raw(fresh.start), 4096), filled(4096, 0));
      set.reset();
    }
  }
}

// It notes what it has written itself, too, and what the one before has.
TEST_F(Missed, TheOneAfterTheNextKnowsIt) {
  auto set = begin(0);
  ASSERT_NO_FATAL_FAILURE(leave_out(*set));
  ASSERT_TRUE(is_noted());
  crash(set);
  set = open(8);
  ASSERT_NE(set, nullptr);
  ASSERT_TRUE(write(*set, address(0), filled(4096, 3)).ok());
  ASSERT_TRUE(set->close().ok());
  set.reset();
  ASSERT_NO_FATAL_FAILURE(plant());
  set = open(9);
  ASSERT_NE(set, nullptr);
  come_back('b');
  ASSERT_TRUE(is_in_state(1, ReplicaState::kInSync));
  ASSERT_TRUE(set->close().ok());
  EXPECT_EQ(on_brick('b', address(0), 4096), filled(4096, 3));
  EXPECT_EQ(on_brick('b', address(1), 4096), filled(4096, kNew));
  EXPECT_EQ(on_brick('b', address(2), 4096), filled(4096, kPlanted));
}

// The map does not say that there is a bitmap before there is.
TEST_F(Missed, AClientThatDiesBeforeItHasNotedItLeavesNothingToKnow) {
  expect_notes_not_believed([](MapReplica& replica) { replica.missed = 0; });
}

TEST_F(Missed, NotesOfAnotherTimeAreNotBelieved) {
  expect_notes_not_believed([](MapReplica& replica) { ++replica.missed; });
}

// As of a backup of etcd: it was in sync in the meantime, and has missed something else.
TEST_F(Missed, ACopyThatWasMarkedSinceGetsEverything) {
  auto set = begin(0);
  ASSERT_NO_FATAL_FAILURE(leave_out(*set));
  ASSERT_TRUE(is_noted());
  const MapReplica then = entry(1);
  come_back('b');
  ASSERT_TRUE(is_in_state(1, ReplicaState::kInSync));
  crash(set);
  SetMap map = map_->get()->map;
  map.places[0].replicas[1] = then;
  map_->restore(map);
  ASSERT_NO_FATAL_FAILURE(plant());
  set = open(8);
  ASSERT_NE(set, nullptr);
  EXPECT_NE(entry(1).missed, 0u);
  ASSERT_NO_FATAL_FAILURE(expect_back(set, true));
}

// With the bricks that had it a bitmap is lost that was not committed.
TEST_F(Missed, WhenAllBricksHaveRestartedNothingIsKnown) {
  auto set = begin(64);
  ASSERT_NO_FATAL_FAILURE(leave_out(*set));
  ASSERT_TRUE(set->commit().ok());
  ASSERT_TRUE(is_noted());
  crash(set);
  brick('a').restart();
  ASSERT_NO_FATAL_FAILURE(plant());
  set = open(8);
  ASSERT_NE(set, nullptr);
  EXPECT_EQ(entry(1).missed, 0u);
  come_back('b');
  ASSERT_NO_FATAL_FAILURE(expect_back(set, true));
}

// A client that let go left all equal.
TEST_F(Missed, OneThatIsNotThereAtAMountHasMissedNothingYet) {
  auto set = begin(64);
  ASSERT_TRUE(set->close().ok());
  set.reset();
  brick('b').faults().refuse(true);
  ASSERT_NO_FATAL_FAILURE(plant());
  set = open(7);
  ASSERT_NE(set, nullptr);
  ASSERT_EQ(entry(1).state, ReplicaState::kStale);
  ASSERT_TRUE(is_noted());
  ASSERT_TRUE(write(*set, address(1), filled(4096, kNew)).ok());
  come_back('b');
  ASSERT_NO_FATAL_FAILURE(expect_back(set, false));
}

TEST_F(Missed, AfterACrashNobodyKnowsWhatOneThatIsNotThereHasMissed) {
  auto set = begin(0);
  ASSERT_TRUE(write(*set, address(1), filled(4096, kNew)).ok());
  crash(set);
  brick('b').faults().refuse(true);
  ASSERT_NO_FATAL_FAILURE(plant());
  set = open(7);
  ASSERT_NE(set, nullptr);
  EXPECT_EQ(entry(1).missed, 0u);
  come_back('b');
  ASSERT_NO_FATAL_FAILURE(expect_back(set, true));
}

// Whoever loses what he was told to keep may have lost more.
TEST_F(Missed, AStoreThatFailedGetsEverything) {
  auto set = begin(64);
  ASSERT_TRUE(write(*set, address(1), filled(4096, kNew)).ok());
  brick('b').faults().answer(BrickCall::kCommit, EIO);
  brick('b').faults().refuse(true);  // the next session
  ASSERT_TRUE(set->commit().ok());
  ASSERT_EQ(entry(1).state, ReplicaState::kStale);
  ASSERT_NO_FATAL_FAILURE(plant());
  come_back('b');
  ASSERT_NO_FATAL_FAILURE(expect_back(set, true));
}

// As from a backup: what else is old there nobody knows.
TEST_F(Missed, AStoreThatHasLostABlockGetsEverything) {
  auto set = begin(64);
  ASSERT_NO_FATAL_FAILURE(leave_out_behind_fresh(*set));
  brick('b').restart_from_commit();
  ASSERT_NO_FATAL_FAILURE(plant());
  come_back('b');
  ASSERT_NO_FATAL_FAILURE(expect_back(set, true));
}

// It is to get everything, and the map cannot be told: until it is, the bitmap that the map names goes on.
TEST_F(Missed, NotesGoOnAsLongAsTheMapHasTheirNumber) {
  auto set = begin(64);
  ASSERT_NO_FATAL_FAILURE(leave_out_behind_fresh(*set));
  ASSERT_TRUE(is_noted());
  const uint64_t number = entry(1).missed;
  brick('b').restart_from_commit();
  store_->set_away(true);
  const uint64_t sessions = brick('b').faults().sessions();
  come_back('b');
  ASSERT_TRUE(comes_true([&] { return brick('b').faults().sessions() >= sessions + 2; }));
  ASSERT_TRUE(write(*set, address(0), filled(4096, 3)).ok());
  ASSERT_TRUE(set->free(kFresh).ok());  // what b lacks is not seen any more
  ASSERT_TRUE(set->commit().ok());
  go_away('b');
  store_->set_away(false);
  ASSERT_TRUE(set->close().ok());  // so rows say nothing
  set.reset();
  ASSERT_TRUE(map_->get()->map.holder->let_go);
  ASSERT_EQ(entry(1).missed, number);
  set = open(8);
  ASSERT_NE(set, nullptr);
  come_back('b');
  ASSERT_TRUE(is_in_state(1, ReplicaState::kInSync));
  ASSERT_TRUE(set->close().ok());
  EXPECT_EQ(on_brick('b', address(0), 4096), filled(4096, 3));
  EXPECT_EQ(on_brick('b', address(1), 4096), filled(4096, kNew));
}

// The same while it is in use: the brick says so itself.
TEST_F(Missed, AStoreThatLosesABlockGetsEverything) {
  auto set = begin(64);
  const BlockRange fresh{kData.end(), 1};
  brick('b').remember_commits();
  brick('b').faults().set_after_commit(nullptr);
  ASSERT_TRUE(set->alloc(fresh).ok());
  ASSERT_TRUE(write(*set, address(1), filled(4096, kNew)).ok());
  ASSERT_TRUE(set->commit().ok());
  const auto before = entry(1).boot;
  brick('b').restart_from_commit();
  ASSERT_TRUE(comes_true([&] { return entry(1).state == ReplicaState::kInSync && entry(1).boot != before; }));
  ASSERT_TRUE(set->close().ok());
  EXPECT_EQ(on_brick('b', address(1), 4096), filled(4096, kNew));
}

// b is out, and a takes no writes: that is tried again now and then, not all the time.
TEST_F(Missed, WhatCannotBeNotedIsTriedAgainBehindAPause) {
  std::atomic<bool> fails{false};
  std::atomic<int> batches{0};
  auto set = begin(0);
  brick('a').faults().set_before_transfers([&] {
    ++batches;
    if (fails) brick('a').faults().answer(BrickCall::kTransfer, EIO);
  });
  do {  // unless the notes were faster
    fails = false;
    come_back('b');
    ASSERT_TRUE(is_in_state(1, ReplicaState::kInSync));
    ASSERT_NO_FATAL_FAILURE(leave_out(*set));
    fails = true;
    std::this_thread::sleep_for(milliseconds(500));
  } while (entry(1).missed != 0);
  const int before = batches;
  std::this_thread::sleep_for(milliseconds(1'000));
  EXPECT_LT(batches - before, 100);
  fails = false;
  EXPECT_TRUE(is_noted());
  set.reset();
}

// A change that was made and could not be noted: the brick goes away at the row, the block, the note, or behind them.
TEST_F(Missed, WhatCouldNotBeNotedIsNotedLater) {
  auto set = begin(0);
  const BlockRange fresh{kData.end(), 6};
  ASSERT_TRUE(set->alloc(fresh).ok());
  ASSERT_NO_FATAL_FAILURE(leave_out(*set));
  ASSERT_TRUE(is_noted());
  size_t given_up = 0;
  for (uint64_t i = 0; i < fresh.count; ++i) {
    brick('a').faults().lose_at(1 + i, BrickFaults::When::kBefore);
    brick('a').faults().refuse(true);
    Interruption by;
    std::thread impatient([&] {
      std::this_thread::sleep_for(milliseconds(300));
      by.raise();
    });
    Bytes bytes = filled(4096, 3);
    const Piece piece{raw(block_after(fresh.start, i)), {{bytes.data(), 4096, 0}}};
    const Status status = set->write(std::span(&piece, 1), Stage::kData, &by);
    impatient.join();
    given_up += status.code() == EINTR ? 1 : 0;
    brick('a').faults().lose();
    come_back('a');
    ASSERT_TRUE(comes_true([&] { return !set->member(0).is_away(); }));
  }
  EXPECT_GE(given_up, 3u);
  // So that this client may let go, when all is noted.
  EXPECT_TRUE(comes_true([&] { return set->mirror(0).can_let_go(); }));
  brick('a').faults().lose_at(0, BrickFaults::When::kBefore);  // what may be left of the last one
  ASSERT_TRUE(set->close().ok());
  EXPECT_TRUE(map_->get()->map.holder->let_go);
  set.reset();
  set = open(8);
  ASSERT_NE(set, nullptr);
  EXPECT_NE(entry(1).missed, 0u);
  come_back('b');
  ASSERT_TRUE(is_in_state(1, ReplicaState::kInSync));
  ASSERT_TRUE(set->close().ok());
  for (uint64_t i = 0; i < fresh.count; ++i) {
    const uint64_t place = raw(block_after(fresh.start, i));
    EXPECT_EQ(on_brick('b', place, 4096), on_brick('a', place, 4096)) << i;
  }
}

}  // namespace
}  // namespace brickfs
