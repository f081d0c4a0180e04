// SPDX-License-Identifier: Apache-2.0
// Replicas that are left out of the map and come back by it, where the map does not answer, or its answer is lost.
#include "tests/support/replica_bed.h"
#include "transport/volume/mirror.h"

namespace brickfs {
namespace {

class ReplicasByMap : public testing::ReplicaBed {
 protected:
  // a is left out: at that moment b goes away, and a comes back. Once, told in `done`.
  void change_places_when_out(std::atomic<bool>& done) {
    store_->set_away_after([this, &done](const SetMap& map) {
      if (map.places[0].replicas[0].state != ReplicaState::kStale || done.exchange(true)) return false;
      go_away('b');
      come_back('a');
      return false;
    });
  }
  static bool has_b_in_sync(const SetMap& map) { return map.places[0].replicas[1].state == ReplicaState::kInSync; }
  // b was left out and comes back; the change of the map that makes it in sync is the last one that this client gets
  // through, and it does not hear that it did.
  void bring_back_without_an_answer() {
    ASSERT_TRUE(is_in_state(1, ReplicaState::kStale));
    store_->set_away_after(has_b_in_sync);
    come_back('b');
    ASSERT_TRUE(is_in_state(1, ReplicaState::kInSync));
  }
};

TEST_F(ReplicasByMap, WithoutTheMapAHealthyVolumeGoesOnAndNobodyIsLeftOut) {
  start(2, 2, 0);
  auto set = open();
  ASSERT_NE(set, nullptr);
  ASSERT_TRUE(set->alloc(kData).ok());
  store_->set_away(true);
  ASSERT_TRUE(write(*set, raw(kData.start), filled(4096, 1)).ok());
  go_away('b');
  std::atomic<bool> done{false};
  std::thread writer([&] {
    EXPECT_TRUE(write(*set, raw(kData.start), filled(4096, 2)).ok());
    done = true;
  });
  EXPECT_TRUE(comes_true([&] { return set->link_state().kind == LinkState::Kind::kWaiting; }));
  EXPECT_FALSE(done);
  const std::string said = set->link_state().text;
  EXPECT_TRUE(said.starts_with(kWaitsForEtcd)) << said;
  EXPECT_NE(said.find("to leave tcp://b:20470/default out"), said.npos) << said;
  const KnownMap known = set->known_map().value();
  EXPECT_EQ(known.absent, std::vector{entry(1).id}) << "whatever the map says";
  EXPECT_FALSE(known.trouble.empty());
  EXPECT_GE(known.troubled_for, milliseconds(1'000));
  store_->set_away(false);
  writer.join();
  EXPECT_EQ(entry(1).state, ReplicaState::kStale);
  EXPECT_TRUE(comes_true([&] { return set->link_state().kind == LinkState::Kind::kConnected; }));
  EXPECT_EQ(set->known_map()->troubled_for, milliseconds(0));
}

// As etcd is when it has no room: what is read of it does not make it well.
TEST_F(ReplicasByMap, AMapThatCanBeReadAloneIsWaitedForAndThatIsSaid) {
  start(2, 2, 0);
  auto set = open();
  ASSERT_NE(set, nullptr);
  ASSERT_TRUE(set->alloc(kData).ok());
  store_->set_full(true);
  go_away('b');
  std::thread writer([&] { EXPECT_TRUE(write(*set, raw(kData.start), filled(4096, 2)).ok()); });
  EXPECT_TRUE(comes_true([&] { return set->link_state().kind == LinkState::Kind::kWaiting; }));
  for (int look = 0; look < 30; ++look) {
    const std::string said = set->link_state().text;
    EXPECT_TRUE(said.starts_with(kWaitsForEtcd)) << said;
    std::this_thread::sleep_for(milliseconds(100));
  }
  store_->set_full(false);
  writer.join();
  EXPECT_EQ(entry(1).state, ReplicaState::kStale);
}

TEST_F(ReplicasByMap, WhyOneCannotComeBackIsInTheMap) {
  start(2, 2, 0);
  auto set = open();
  ASSERT_NE(set, nullptr);
  ASSERT_TRUE(set->alloc(kData).ok());
  go_away('b');
  ASSERT_TRUE(write(*set, raw(kData.start), filled(4096, 1)).ok());
  EXPECT_TRUE(comes_true([&] { return !entry(1).trouble.empty(); }));
  const uint64_t generation = map_->get()->map.generation;
  std::this_thread::sleep_for(milliseconds(3'000));
  EXPECT_LE(map_->get()->map.generation, generation + 2) << "once, and not at each attempt";
  come_back('b');
  EXPECT_TRUE(is_in_state(1, ReplicaState::kInSync));
  EXPECT_TRUE(entry(1).trouble.empty());
}

// Its brick has another address: as one that was away, it comes back by that, and misses what was written meanwhile.
TEST_F(ReplicasByMap, OneComesBackAtAnotherAddress) {
  start(2, 2, kBlocks);
  auto set = open();
  ASSERT_NE(set, nullptr);
  ASSERT_TRUE(set->alloc(kData).ok());
  ASSERT_TRUE(write(*set, raw(kData.start), filled(4096, 1)).ok());
  const auto move = [&](SetMap& map) { map.places[0].replicas[1].source = "tcp://c:20470/default"; };
  for (;;) {  // its holder changes the map, too
    auto stored = *map_->get();
    move(stored.map);
    ++stored.map.generation;
    if (map_->replace(stored.map, stored.version).ok()) break;
  }
  ASSERT_TRUE(write(*set, raw(kData.start), filled(4096, 2)).ok()) << "the connection serves on";
  go_away('b');
  ASSERT_TRUE(write(*set, raw(kData.start), filled(4096, 3)).ok());
  come_back('b');
  bricks_["tcp://c:20470/default"] = std::move(bricks_.at("tcp://b:20470/default"));
  bricks_.erase("tcp://b:20470/default");
  EXPECT_TRUE(is_in_state(1, ReplicaState::kInSync));
  EXPECT_EQ(entry(1).source, "tcp://c:20470/default");
  EXPECT_EQ(on_brick('c', raw(kData.start), 4096), filled(4096, 3));
}

// A change whose answer was lost is found out about, and not made twice.
TEST_F(ReplicasByMap, AnAnswerOfTheMapIsLost) {
  start(2, 2, 0);
  auto set = open();
  ASSERT_NE(set, nullptr);
  ASSERT_TRUE(set->alloc(kData).ok());
  store_->lose_answers(1);
  go_away('b');
  ASSERT_TRUE(write(*set, raw(kData.start), filled(4096, 2)).ok());
  EXPECT_EQ(entry(1).state, ReplicaState::kStale);
}

// It is back before that is found out about.
TEST_F(ReplicasByMap, TheAnswerIsLostThatOneIsOut) {
  start(2, 2, 0);
  auto set = open();
  ASSERT_NE(set, nullptr);
  ASSERT_TRUE(set->alloc(kData).ok());
  store_->set_away_after([](const SetMap& map) { return map.places[0].replicas[1].state == ReplicaState::kStale; });
  go_away('b');
  ASSERT_TRUE(is_in_state(1, ReplicaState::kStale));
  come_back('b');
  std::this_thread::sleep_for(milliseconds(500));
  store_->set_away(false);
  EXPECT_TRUE(is_in_state(1, ReplicaState::kInSync));
  ASSERT_TRUE(write(*set, raw(kData.start), filled(4096, 3)).ok());
  ASSERT_TRUE(set->close().ok());
  EXPECT_EQ(on_brick('b', raw(kData.start), 4096), filled(4096, 3));
}

// One is left out, and the other goes away before it has the mark of that: nothing was written without the first one.
TEST_F(ReplicasByMap, TheOneThatIsThereIsTakenBackForTheLast) {
  start(2, 2, 0);
  soft_ = milliseconds(8'000);  // else it would wait for ever
  auto set = open();
  ASSERT_NE(set, nullptr);
  ASSERT_TRUE(set->alloc(kData).ok());
  ASSERT_TRUE(write(*set, raw(kData.start), filled(4096, 2)).ok());
  std::atomic<bool> done{false};
  change_places_when_out(done);
  go_away('a');
  ASSERT_TRUE(comes_true([&] { return done.load(); }));
  EXPECT_TRUE(write(*set, raw(kData.start), filled(4096, 3)).ok());
  EXPECT_EQ(entry(0).state, ReplicaState::kInSync);
  EXPECT_EQ(entry(1).state, ReplicaState::kStale);
  come_back('b');
  EXPECT_TRUE(is_in_state(1, ReplicaState::kInSync));
  ASSERT_TRUE(set->close().ok());
  EXPECT_EQ(on_brick('a', raw(kData.start), 4096), filled(4096, 3));
  EXPECT_EQ(on_brick('b', raw(kData.start), 4096), filled(4096, 3));
}

// The change that takes it back is answered by nobody, and does not happen behind what is done without it afterwards.
TEST_F(ReplicasByMap, TheOneThatWasToBeTakenBackIsLeftOutAfterAll) {
  start(2, 2, 0);
  soft_ = milliseconds(8'000);  // else it would wait for ever
  auto set = open();
  ASSERT_NE(set, nullptr);
  ASSERT_TRUE(set->alloc(kData).ok());
  ASSERT_TRUE(write(*set, raw(kData.start), filled(4096, 2)).ok());
  std::atomic<bool> is_out{false};
  change_places_when_out(is_out);
  std::atomic<bool> is_held{false};
  store_->hold_up([this, &is_held](const SetMap& map) {
    if (map.places[0].replicas[1].state != ReplicaState::kStale) return false;
    if (is_held.exchange(true)) return true;
    go_away('a');
    come_back('b');
    return true;
  });
  go_away('a');
  ASSERT_TRUE(comes_true([&] { return is_held.load(); }));
  ASSERT_TRUE(comes_true([&] { return set->mirror(0).copies().size() == 1; }));
  EXPECT_EQ(store_->let_happen().code(), EAGAIN);
  ASSERT_TRUE(write(*set, raw(kData.start), filled(4096, 3)).ok());
  EXPECT_EQ(entry(0).state, ReplicaState::kStale);
  EXPECT_EQ(entry(1).state, ReplicaState::kInSync);
  set.reset();
  come_back('a');
  set = open();
  ASSERT_NE(set, nullptr);
  EXPECT_EQ(*read(*set, raw(kData.start), 4096), filled(4096, 3));
}

// It goes away when it has all, and is taken out before the map is asked to call it in sync: what was written meanwhile
// it has missed.
TEST_F(ReplicasByMap, OneThatWasTakenOutMeanwhileIsNotInSync) {
  start(2, 2, 0);
  auto set = open();
  ASSERT_NE(set, nullptr);
  ASSERT_TRUE(set->alloc(kData).ok());
  go_away('b');
  ASSERT_TRUE(write(*set, raw(kData.start), filled(4096, 2)).ok());
  ASSERT_TRUE(is_in_state(1, ReplicaState::kStale));
  store_->change_before(
      has_b_in_sync, [](SetMap& map) { set_state(map.places[0].replicas[1], ReplicaState::kStale, ++map.generation); });
  const uint64_t sessions = brick('b').faults().sessions();
  come_back('b');
  ASSERT_TRUE(is_in_state(1, ReplicaState::kInSync));
  EXPECT_GE(brick('b').faults().sessions(), sessions + 2) << "brought back once more";
}

// It has everything, and the map is about to say so, when the other one is lost: a write waits for that.
TEST_F(ReplicasByMap, OneThatIsAboutToBeInSyncIsAnotherOneToWaitFor) {
  start(2, 2, 0);
  auto set = open();
  ASSERT_NE(set, nullptr);
  ASSERT_TRUE(set->alloc(kData).ok());
  go_away('b');
  ASSERT_TRUE(write(*set, raw(kData.start), filled(4096, 2)).ok());
  std::thread writer;
  std::atomic<bool> done{false};
  store_->change_before(has_b_in_sync, [&](SetMap&) {
    brick('a').restart();
    writer = std::thread([&] {
      EXPECT_TRUE(write(*set, raw(kData.start), filled(4096, 3)).ok());
      done = true;
    });
    EXPECT_TRUE(comes_true([&] { return !set->known_map()->absent.empty(); }));
    std::this_thread::sleep_for(milliseconds(500));
    EXPECT_FALSE(done);
  });
  come_back('b');
  ASSERT_TRUE(comes_true([&] { return done.load(); }));
  writer.join();
  EXPECT_EQ(*read(*set, raw(kData.start), 4096), filled(4096, 3));
  EXPECT_TRUE(is_in_state(0, ReplicaState::kInSync));
}

// It is left out, and brought back once more.
TEST_F(ReplicasByMap, TheAnswerIsLostThatOneIsInSync) {
  start(2, 2, 0);
  auto set = open();
  ASSERT_NE(set, nullptr);
  ASSERT_TRUE(set->alloc(kData).ok());
  go_away('b');
  ASSERT_TRUE(write(*set, raw(kData.start), filled(4096, 2)).ok());
  ASSERT_NO_FATAL_FAILURE(bring_back_without_an_answer());
  ASSERT_TRUE(write(*set, raw(kData.start), filled(4096, 3)).ok());
  EXPECT_EQ(set->mirror(0).copies().size(), 1u);
  store_->set_away(false);
  EXPECT_TRUE(comes_true([&] { return set->mirror(0).copies().size() == 2; }));
  EXPECT_EQ(entry(1).state, ReplicaState::kInSync);
  ASSERT_TRUE(set->close().ok());
  EXPECT_EQ(on_brick('b', raw(kData.start), 4096), filled(4096, 3));
}

// The client that brought it back reaches the other one alone; another takes the volume over by the one that is in sync
// in the map.
TEST_F(ReplicasByMap, OneThatIsPerhapsInSyncIsHeardOfBeforeAReadCounts) {
  start(2, 2, 0);
  soft_ = milliseconds(3'000);
  auto set = open();
  ASSERT_NE(set, nullptr);
  ASSERT_TRUE(set->alloc(kData).ok());
  ASSERT_TRUE(write(*set, raw(kData.start), filled(4096, 1)).ok());
  go_away('b');
  ASSERT_NO_FATAL_FAILURE(bring_back_without_an_answer());
  ASSERT_EQ(*read(*set, raw(kData.start), 4096), filled(4096, 1));
  go_away('b');
  EXPECT_TRUE(comes_true([&] { return set->member(0).is_away(); }));
  EXPECT_FALSE(set->mirror(0).can_let_go());

  const auto make = [this](const std::string& source, std::string*) -> Result<std::unique_ptr<Brick>> {
    if (source.find("//a") != std::string::npos) return Error(EHOSTUNREACH, "cut off");
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
  store_->set_away(false);
  EXPECT_TRUE(comes_true([&] { return read(*set, raw(kData.start), 4096).code() == ESTALE; }));
}

}  // namespace
}  // namespace brickfs
