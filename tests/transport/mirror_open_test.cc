// SPDX-License-Identifier: Apache-2.0
// What the next client finds after the last one: which replicas are believed, and how they become equal.
#include "tests/support/replica_bed.h"
#include "transport/volume/mirror.h"
#include "transport/volume/set_membership.h"

namespace brickfs {
namespace {

class NextClient : public testing::ReplicaBed {
 protected:
  // A client that crashed; b was left out by the mount, and a has a dirty bitmap of what it misses, which a mount reads
  // last.
  void write_and_crash_with_bitmap() {
    constexpr uint64_t kBitmap = 77;
    map_ = std::make_shared<MemoryMap>();
    bricks_.clear();
    ASSERT_NO_FATAL_FAILURE(write_and_crash());
    SetMap map = map_->get()->map;
    set_state(map.places[0].replicas[1], ReplicaState::kStale, map.holder->epoch);
    map.places[0].replicas[1].missed = kBitmap;
    ++map.generation;
    map_->restore(map);
    brick('b').faults().refuse(true);
    const StoredBitmapHeader header = encode_bitmap_header(map.set, 0, kBitmap);
    const auto bytes = std::as_bytes(std::span(&header, 1));
    write_past_holder(*brick('a').make_brick(), kBitmapOffset, {bytes.begin(), bytes.end()});
  }
};

// What a client that crashed was writing is the same everywhere before anything is read.
TEST_F(NextClient, WhatACrashInterruptedIsMadeEqual) {
  start(2, 2, 0);
  auto set = open();
  ASSERT_NE(set, nullptr);
  ASSERT_TRUE(set->alloc(kData).ok());
  ASSERT_TRUE(write(*set, raw(kData.start), filled(4096, 1)).ok());
  // The second copy of this write does not arrive.
  soft_ = milliseconds(100);
  set.reset();
  write_past_holder(*brick('a').make_brick(), raw(kData.start), filled(4096, 9));
  soft_.reset();
  EXPECT_FALSE(map_->get()->map.holder->let_go);
  set.reset();
  set = open();
  ASSERT_NE(set, nullptr);
  EXPECT_EQ(*read(*set, raw(kData.start), 4096), filled(4096, 9));
  ASSERT_TRUE(set->close().ok());
  EXPECT_EQ(on_brick('b', raw(kData.start), 4096), filled(4096, 9));
}

// Whatever a crash on the way leaves of a copy, it has no journal that refers to what it has not.
TEST_F(NextClient, WhatACrashInterruptedIsMadeDurableStageByStage) {
  start(2, 2, 64);
  auto set = open();
  ASSERT_NE(set, nullptr);
  const BlockRange data{kData.start, 1};
  const BlockRange journal{data.end(), 1};
  const BlockRange superblock{BlockAddress{0}, 1};
  ASSERT_TRUE(set->alloc(kData).ok());
  ASSERT_TRUE(set->commit().ok());
  for (const BlockRange& block : {data, journal, superblock})
    ASSERT_TRUE(write(*set, raw(block.start), filled(4096, 7)).ok());
  set.reset();
  const auto opened = try_open(8);
  ASSERT_TRUE(opened.ok());
  ASSERT_FALSE((*opened)->is_settled());
  std::map<char, size_t> before;
  for (const char name : {'a', 'b'}) before[name] = brick(name).faults().commits().size();
  ASSERT_TRUE((*opened)->settle(std::span(&data, 1), std::span(&journal, 1), std::span(&superblock, 1)).ok());
  EXPECT_TRUE((*opened)->is_settled());
  for (const char name : {'a', 'b'}) {
    BlockSet durable;
    const auto commits = brick(name).faults().commits();
    for (size_t i = before[name]; i < commits.size(); ++i) {
      BlockSet under_way;
      for (const CommitRange& range : commits[i]) {
        if (range.after_previous) durable.insert(std::exchange(under_way, BlockSet()));
        const uint64_t first = round_down(range.address, kBlockBytes);
        const BlockRange touched{BlockAddress{first},
                                 divide_up(range.address + range.length_bytes - first, kBlockBytes)};
        if (BlockSet{std::span(&touched, 1)}.intersects(journal)) {
          EXPECT_TRUE(durable.contains(data)) << name << ": the journal before the data";
        }
        if (BlockSet{std::span(&touched, 1)}.intersects(superblock) && !durable.contains(superblock)) {
          EXPECT_TRUE(durable.contains(journal)) << name << ": the superblock before the journal";
        }
        if (range.length_bytes % kBlockBytes == 0) under_way.insert(touched);
      }
      durable.insert(under_way);
    }
    EXPECT_TRUE(durable.contains(superblock)) << name;
  }
  ASSERT_TRUE((*opened)->close().ok());
  for (const BlockRange& block : {data, journal, superblock}) {
    EXPECT_EQ(on_brick('b', raw(block.start), 4096), filled(4096, 7));
  }
}

// A brick that dies in a commit may tear what that names: never both slots of the mark, and never the newer one while
// the other is not durable.
TEST_F(NextClient, AMarkIsDurableBeforeItsOtherSlotIsWritten) {
  start(2, 2, 64);
  const auto set = open();
  ASSERT_NE(set, nullptr);
  ASSERT_TRUE(set->alloc(kData).ok());
  ASSERT_TRUE(set->commit().ok());
  go_away('b');
  ASSERT_TRUE(write(*set, raw(kData.start), filled(4096, 7)).ok());
  brick('b').restart();
  // The commit of its mark fails, which is the third one, and it is brought back once more.
  const size_t before = brick('b').faults().commits().size();
  brick('b').faults().answer(BrickCall::kCommit, EIO, 3);
  come_back('b');
  ASSERT_TRUE(is_in_state(1, ReplicaState::kInSync));
  std::vector<std::string> marks;  // which slots each commit has: as such, or with what is around them
  const auto commits = brick('b').faults().commits();
  for (size_t i = before; i < commits.size(); ++i) {
    std::string slots;
    for (const CommitRange& range : commits[i]) {
      for (const uint64_t slot : {0, 1}) {
        const uint64_t at = kReplicaMarkOffset + slot * kReplicaMarkSlotBytes;
        if (range.address > at || at >= range.address + range.length_bytes) continue;
        slots += (range.length_bytes < kReplicaMarkSlotBytes ? "slot " : "around slot ") + std::to_string(slot) + ";";
      }
    }
    if (!slots.empty()) marks.push_back(slots);
  }
  // The second time the whole block comes first: what its former session has left there is perhaps not durable.
  ASSERT_GE(marks.size(), 5u);
  marks.resize(5);
  EXPECT_EQ(marks, (std::vector<std::string>{"around slot 0;around slot 1;", "slot 1;", "around slot 0;around slot 1;",
                                             "around slot 0;around slot 1;", "slot 0;"}));
}

// An empty brick whose first mark was written, and perhaps not made durable, gets it again before anything else: should
// it die while it is copied to, it has blocks, and without a mark they would be somebody else's for ever.
TEST_F(NextClient, AFirstMarkIsDurableBeforeAnythingElseIsThere) {
  ASSERT_NO_FATAL_FAILURE(write_and_crash());
  wipe('b', 64);
  brick('b').faults().answer(BrickCall::kCommit, EIO, 2);  // that of the first block, with the mark
  const auto set = open(8);
  ASSERT_NE(set, nullptr);
  ASSERT_TRUE(is_in_state(1, ReplicaState::kInSync));
  const auto commits = brick('b').faults().commits();
  ASSERT_GE(commits.size(), 4u);
  for (const size_t at : {0, 2}) {
    ASSERT_EQ(commits[at].size(), 1u);
    EXPECT_EQ(commits[at][0].address, kReplicaMarkOffset);
    ASSERT_EQ(commits[at + 1].size(), 1u);
    EXPECT_EQ(commits[at + 1][0].address, 0u);
    EXPECT_EQ(commits[at + 1][0].length_bytes, kBlockBytes);
  }
}

// What was read of it before is not there any more.
TEST_F(NextClient, ABrickThatRestartsWhileItIsReadIsNotBelieved) {
  ASSERT_NO_FATAL_FAILURE(write_and_crash());
  {
    const auto opened = try_open(8);
    ASSERT_TRUE(opened.ok());
    EXPECT_EQ(*read(**opened, raw(kData.start), 4096), filled(4096, 7));
    brick('a').restart();
    EXPECT_EQ(settle(**opened).code(), EIO);
    static_cast<void>((*opened)->close());
  }
  const auto set = open(9);
  ASSERT_NE(set, nullptr);
  EXPECT_EQ(*read(*set, raw(kData.start), 4096), filled(4096, 7));
  EXPECT_TRUE(is_in_state(0, ReplicaState::kInSync));
}

// At whatever call: what was not committed is there, or the map says that it is not.
TEST_F(NextClient, ABrickThatRestartsWhileItIsOpenedIsNotBelieved) {
  size_t given_up = 0;
  uint64_t nth = 1;
  for (bool restarted = true; restarted; ++nth) {
    SCOPED_TRACE("call " + std::to_string(nth));
    ASSERT_NO_FATAL_FAILURE(write_and_crash_with_bitmap());
    const uint64_t before = brick('a').faults().calls();
    brick('a').restart_at(nth);
    {
      const auto opened = try_open(8);
      ASSERT_TRUE(opened.ok()) << refusal_.why;
      const Status settled = settle(**opened);
      restarted = brick('a').faults().calls() - before >= nth;
      given_up += settled.code() == EIO ? 1 : 0;
      if (settled.ok() && !map_->get()->map.tail_lost) {
        EXPECT_EQ(*read(**opened, raw(kData.start), 4096), filled(4096, 7));
      }
      if (!restarted) {
        EXPECT_NE(entry(1).missed, 0u);  // the bitmap was found
      }
    }
    if (!restarted) break;
    const auto set = open(9);
    ASSERT_NE(set, nullptr);
    if (!map_->get()->map.tail_lost) {
      EXPECT_EQ(*read(*set, raw(kData.start), 4096), filled(4096, 7));
    }
  }
  EXPECT_GT(nth, 10u);
  EXPECT_GT(given_up, 1u);
}

// It lacks what was not committed, also where no row says so.
TEST_F(NextClient, AnotherBrickThatRestartsBeforeItIsSettledIsBroughtBackAsAWhole) {
  ASSERT_NO_FATAL_FAILURE(write_and_crash());
  const auto opened = try_open(8);
  ASSERT_TRUE(opened.ok());
  brick('b').restart();
  ASSERT_TRUE(settle(**opened).ok());
  EXPECT_TRUE(is_in_state(1, ReplicaState::kInSync));
  ASSERT_TRUE((*opened)->close().ok());
  EXPECT_EQ(on_brick('b', raw(kData.start), 4096), filled(4096, 7));
}

TEST_F(NextClient, AReplicaThatIsNotThereAtTheMountIsLeftOut) {
  start(2, 2, 0);
  auto set = open();
  ASSERT_TRUE(set->alloc(kData).ok());
  ASSERT_TRUE(write(*set, raw(kData.start), filled(4096, 1)).ok());
  ASSERT_TRUE(set->close().ok());
  brick('a').faults().refuse(true);
  set.reset();
  set = open();
  ASSERT_NE(set, nullptr);
  EXPECT_EQ(*read(*set, raw(kData.start), 4096), filled(4096, 1));
  ASSERT_TRUE(write(*set, raw(kData.start), filled(4096, 2)).ok());
  come_back('a');
  ASSERT_TRUE(is_in_state(0, ReplicaState::kInSync));
  ASSERT_TRUE(set->close().ok());
  EXPECT_EQ(on_brick('a', raw(kData.start), 4096), filled(4096, 2));
}

// The mount is a hard one: it would wait.
TEST_F(NextClient, ABrickThatGoesAwayWhileItIsOpenedIsLeftOut) {
  start(2, 2, 0);
  auto set = open();
  ASSERT_TRUE(set->alloc(kData).ok());
  ASSERT_TRUE(write(*set, raw(kData.start), filled(4096, 1)).ok());
  ASSERT_TRUE(set->close().ok());
  set.reset();
  bool is_first = true;
  at_change_ = [&](const SetMap&) {
    if (std::exchange(is_first, false)) go_away('a');  // with the claim
    return false;
  };
  auto opened = try_open();
  ASSERT_TRUE(opened.ok()) << refusal_.why;
  set = std::move(*opened);
  EXPECT_TRUE(set->is_settled()) << "the volume had been let go";
  EXPECT_EQ(entry(0).state, ReplicaState::kStale);
  EXPECT_EQ(*read(*set, raw(kData.start), 4096), filled(4096, 1));
  come_back('a');
  EXPECT_TRUE(is_in_state(0, ReplicaState::kInSync));
}

// All is read from the first one then, and the mount begins anew without it.
TEST_F(NextClient, TheFirstOneThatGoesAwayBeforeItIsSettledIsNotWaitedFor) {
  ASSERT_NO_FATAL_FAILURE(write_and_crash());
  auto opened = try_open(8);
  ASSERT_TRUE(opened.ok());
  ASSERT_FALSE((*opened)->is_settled());
  go_away('a');
  EXPECT_EQ(read(**opened, raw(kData.start), 4096).code(), EIO);
  EXPECT_EQ(settle(**opened).code(), EIO);
  opened->reset();
  const auto set = open(8);
  ASSERT_NE(set, nullptr);
  EXPECT_EQ(*read(*set, raw(kData.start), 4096), filled(4096, 7));
}

TEST_F(NextClient, TheLastBrickThatGoesAwayWhileItIsOpenedIsNamed) {
  start(1, 1, 0);
  at_change_ = [&](const SetMap&) {
    go_away('a');
    return false;
  };
  EXPECT_EQ(try_open().error().code(), EHOSTUNREACH);
  EXPECT_NE(refusal_.why.find("tcp://a:20470"), std::string::npos) << refusal_.why;
}

// As of a brick that restarts while it is opened, on a machine that has much to do.
TEST_F(NextClient, OneThatTakesLongToFailIsTriedOnceMore) {
  start(1, 1, 0);
  VolumeOptions options;
  options.open.client = ClientId{7};
  int tries = 0;
  const auto make = [&](const std::string& source, std::string*) -> Result<std::unique_ptr<Brick>> {
    if (++tries > 1) return bricks_.at(source)->make_brick();
    std::this_thread::sleep_for(milliseconds(5'100));  // longer than others are tried for
    return Error(ENOTCONN, "it restarts");
  };
  EXPECT_TRUE(VolumeSet::open(std::make_unique<MemoryMapStore>(map_), make, options, &refusal_).ok()) << refusal_.why;
}

// As a volatile brick is that was started again without --volume: the others are there.
TEST_F(NextClient, ABrickThatHasTheVolumeNoMoreIsLeftOut) {
  start(3, 2, 0);
  auto set = open();
  ASSERT_NE(set, nullptr);
  ASSERT_TRUE(set->alloc(kData).ok());
  ASSERT_TRUE(write(*set, raw(kData.start), filled(4096, 1)).ok());
  ASSERT_TRUE(set->close().ok());
  const MapReplica gone = entry(0, 1);
  ASSERT_TRUE(gone.source.ends_with("/default.2")) << gone.source;
  bricks_.at(gone.source)->restart_without_volumes();
  set.reset();
  tries_ = 0;
  auto opened = try_open();
  EXPECT_LT(tries_, 12) << "again and again for 5 s, as one that may come back";
  ASSERT_TRUE(opened.ok()) << refusal_.why;
  set = std::move(*opened);
  ASSERT_TRUE(settle(*set).ok());
  EXPECT_EQ(entry(0, 1).state, ReplicaState::kStale);
  EXPECT_EQ(entry(1, 1).state, ReplicaState::kInSync);
  EXPECT_EQ(*read(*set, raw(kData.start), 4096), filled(4096, 1));
}

TEST_F(NextClient, AStaleOneIsNeverReadAlone) {
  start(2, 2, 0);
  auto set = open();
  ASSERT_TRUE(set->alloc(kData).ok());
  go_away('b');
  ASSERT_TRUE(write(*set, raw(kData.start), filled(4096, 2)).ok());
  ASSERT_TRUE(set->close().ok());
  come_back('b');
  brick('a').faults().refuse(true);
  EXPECT_EQ(try_open().error().code(), EHOSTUNREACH);
  EXPECT_NE(refusal_.why.find("tcp://a:20470"), std::string::npos) << refusal_.why;
}

// A durable brick whose store was replaced while nobody had the volume: it is empty, and must not be what the volume
// is.
TEST_F(NextClient, AWipedCopyIsNotBelieved) {
  start(2, 2, 64);
  auto set = open();
  ASSERT_NE(set, nullptr);
  ASSERT_TRUE(set->alloc(kData).ok());
  ASSERT_TRUE(write(*set, raw(kData.start), filled(4096, 1)).ok());
  ASSERT_TRUE(set->commit().ok());
  ASSERT_TRUE(set->close().ok());
  set.reset();
  wipe('a', 64);
  set = open();
  ASSERT_NE(set, nullptr);
  EXPECT_EQ(*read(*set, raw(kData.start), 4096), filled(4096, 1));
  EXPECT_TRUE(is_in_state(0, ReplicaState::kInSync));
  ASSERT_TRUE(set->close().ok());
  set.reset();
  EXPECT_EQ(on_brick('a', raw(kData.start), 4096), filled(4096, 1));
  wipe('a', 64);
  wipe('b', 64);
  EXPECT_EQ(try_open().error().code(), ENODATA);
}

// A mount leaves a replica out, which a client before it may be reading, and dies before it has waited for that.
TEST_F(NextClient, WhatAMountThatDiedWasToWaitForTheNextWaitsFor) {
  start(2, 2, 0);
  auto set = open();
  ASSERT_NE(set, nullptr);
  ASSERT_TRUE(set->alloc(kData).ok());
  set.reset();
  SetMap map = map_->get()->map;
  set_state(map.places[0].replicas[1], ReplicaState::kStale, ++map.generation);
  map.holder = MapHolder{ClientId{8}, "died", map.generation, false};
  map.lease_wait = true;
  map_->restore(map);
  const auto began = std::chrono::steady_clock::now();
  set = open(9);
  ASSERT_NE(set, nullptr);
  EXPECT_GE(std::chrono::steady_clock::now() - began, limits::kLease);
  EXPECT_FALSE(map_->get()->map.lease_wait);
}

// The one before has left a copy out, perhaps without knowing that it is out. His lease is free: he had no connection
// when it was asked for, and may have one to the copy that he has left out.
TEST_F(NextClient, WhoComesWhereACopyIsLeftOutWaits) {
  start(2, 2, 0);
  auto set = open();
  ASSERT_NE(set, nullptr);
  ASSERT_TRUE(set->alloc(kData).ok());
  set.reset();
  SetMap map = map_->get()->map;
  map.holder = MapHolder{ClientId{8}, "died", map.generation, false};
  set_state(map.places[0].replicas[1], ReplicaState::kStale, ++map.generation);
  map_->restore(map);
  const auto began = std::chrono::steady_clock::now();
  set = open(9);
  ASSERT_NE(set, nullptr);
  EXPECT_GE(std::chrono::steady_clock::now() - began, limits::kLease);
}

// Until the claim a reader finds the map as it was.
TEST_F(NextClient, WhoLeavesACopyOutWaitsForReadersOfTheMap) {
  start(3, 2, 0);
  auto set = open();
  ASSERT_NE(set, nullptr);
  ASSERT_TRUE(set->alloc(kData).ok());
  ASSERT_TRUE(set->close().ok());
  bricks_.at(entry(0, 1).source)->restart_without_volumes();
  set.reset();
  std::chrono::steady_clock::time_point claimed_at{};
  at_change_ = [&](const SetMap&) {
    if (claimed_at != std::chrono::steady_clock::time_point{}) return false;
    std::this_thread::sleep_for(limits::kLease - milliseconds(2'000));
    claimed_at = std::chrono::steady_clock::now();
    return false;
  };
  set = open(8);
  ASSERT_NE(set, nullptr);
  EXPECT_GE(std::chrono::steady_clock::now() - claimed_at, Confirmation::kLasts);
}

// What the last client had not committed is lost with a brick that restarts; the other one has it.
TEST_F(NextClient, AReaderDoesNotReadWhatARestartHasLost) {
  ASSERT_NO_FATAL_FAILURE(write_and_crash());
  mode_ = OpenMode::kReadOnly;
  soft_ = milliseconds(20'000);  // else it would wait for ever
  const auto set = open();
  ASSERT_NE(set, nullptr);
  set->expect_no_restart();
  EXPECT_EQ(*read(*set, raw(kData.start), 4096), filled(4096, 7));
  brick('a').restart();
  EXPECT_EQ(*read(*set, raw(kData.start), 4096), filled(4096, 7));
}

// Nobody has to wait after one that has waited.
TEST_F(NextClient, AMountThatLeavesAReplicaOutWaitsOnce) {
  start(2, 2, 0);
  auto set = open();
  ASSERT_NE(set, nullptr);
  ASSERT_TRUE(set->alloc(kData).ok());
  set.reset();
  brick('b').faults().refuse(true);
  set = open(8);
  ASSERT_NE(set, nullptr);
  EXPECT_EQ(entry(1).state, ReplicaState::kStale);
  EXPECT_FALSE(map_->get()->map.lease_wait);
  set.reset();
  const auto began = std::chrono::steady_clock::now();
  set = open(9);
  ASSERT_NE(set, nullptr);
  EXPECT_LT(std::chrono::steady_clock::now() - began, limits::kLease);
}

TEST_F(NextClient, AReaderNeedsAllThatAHolderMayBeWritingTo) {
  start(2, 2, 0);
  auto set = open();
  ASSERT_NE(set, nullptr);
  set.reset();
  mode_ = OpenMode::kReadOnly;
  brick('b').faults().refuse(true);
  EXPECT_EQ(try_open().error().code(), EHOSTUNREACH);
  EXPECT_NE(refusal_.why.find("without ro"), std::string::npos) << refusal_.why;
}

TEST_F(NextClient, AllVolatileCopiesLostIsSaid) {
  start(2, 2, 0);
  auto set = open();
  ASSERT_TRUE(set->alloc(kData).ok());
  ASSERT_TRUE(set->close().ok());
  brick('a').restart();
  brick('b').restart();
  EXPECT_EQ(try_open().error().code(), ENODATA);
}

// What was committed first after a mount counts, though earlier mounts have committed more often.
TEST_F(NextClient, TheLastCommitRecordIsBelieved) {
  start(3, 2, 64);
  uint64_t position = 0;
  auto set = open();
  ASSERT_NE(set, nullptr);
  ASSERT_TRUE(set->alloc(kData).ok());
  set->set_commit_position([&] { return position; });
  for (position = 1; position <= 4; ++position) {
    ASSERT_TRUE(write(*set, raw(kData.start), filled(4096, 1)).ok());
    ASSERT_TRUE(set->commit().ok());
  }
  set->set_commit_position(nullptr);
  ASSERT_TRUE(set->close().ok());
  set.reset();
  set = open();
  ASSERT_NE(set, nullptr);
  position = 10;
  set->set_commit_position([&] { return position; });
  ASSERT_TRUE(write(*set, raw(kData.start), filled(4096, 2)).ok());
  ASSERT_TRUE(set->commit().ok());
  store_->set_away(true);
  set.reset();
  for (auto& [source, brick] : bricks_) brick->restart();
  set = open();
  ASSERT_NE(set, nullptr);
  EXPECT_EQ(set->trusted_position(), std::optional<uint64_t>(10));
  EXPECT_EQ(*read(*set, raw(kData.start), 4096), filled(4096, 2));
  // Also by whoever comes after a crash before the journal was put right.
  store_->set_away(true);
  set.reset();
  set = open();
  ASSERT_NE(set, nullptr);
  EXPECT_EQ(set->trusted_position(), std::optional<uint64_t>(10));
  set->set_commit_position([&] { return position; });
  ASSERT_TRUE(write(*set, raw(kData.start), filled(4096, 3)).ok());
  ASSERT_TRUE(set->commit().ok());
  set->set_commit_position(nullptr);
  for (size_t place = 0; place < 3; ++place) {  // with one that is about to be the volume is not let go
    for (size_t i = 0; i < 2; ++i)
      EXPECT_TRUE(comes_true([&] { return entry(i, place).state == ReplicaState::kInSync; }));
  }
  ASSERT_TRUE(set->close().ok());
  ASSERT_TRUE(map_->get()->map.holder->let_go);
  set.reset();
  set = open();
  ASSERT_NE(set, nullptr);
  EXPECT_EQ(set->trusted_position(), std::nullopt);
}

// The client that made it ended before it had marked it.
TEST_F(NextClient, TheMakingOfAPlaceIsCompleted) {
  start(2, 2, 0);
  SetMap map = map_->get()->map;
  map.holder = MapHolder{ClientId{8}, "former", ++map.generation, false};
  map_->restore(map);
  auto session = brick('a').make_brick();
  OpenRequest request;
  request.client = ClientId{0x999};
  ASSERT_TRUE(session->open(request, nullptr).ok());
  ASSERT_TRUE(session->alloc(first_block_of(0)).ok());
  ASSERT_TRUE(session->close().ok());
  auto set = open();
  ASSERT_NE(set, nullptr);
  ASSERT_TRUE(set->alloc(kData).ok());
}

}  // namespace
}  // namespace brickfs
