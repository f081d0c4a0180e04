// SPDX-License-Identifier: Apache-2.0
// Clients of a place beside its holder: who had it before, and readers.
#include <thread>
#include <utility>

#include "tests/support/replica_bed.h"
#include "transport/volume/mirror.h"

namespace brickfs {
namespace {

class OtherClients : public testing::ReplicaBed {
 protected:
  // Longer than another client lets pass before it tries again to bring a copy back.
  static void write_for_long(VolumeSet& set) {
    const auto until = std::chrono::steady_clock::now() + milliseconds(12'000);
    for (int value = 1; std::chrono::steady_clock::now() < until; value = value % 250 + 1) {
      ASSERT_TRUE(write(set, raw(kData.start), filled(4096, value)).ok());
      std::this_thread::sleep_for(milliseconds(20));
    }
  }
};

// One of them has opened a copy, and so fenced the holder there, when the other comes.
TEST_F(OtherClients, OfTwoWhoStealAtOnceOneHasIt) {
  start(2, 2, 0);
  auto victim = open(6);
  ASSERT_NE(victim, nullptr);
  ASSERT_TRUE(victim->alloc(kData).ok());
  std::atomic<bool> first_is_at_b{false};
  std::atomic<bool> goes_on{false};
  const auto steal = [&](uint64_t client, SetRefusal* refusal, bool stops) {
    VolumeOptions options;
    options.open.client = ClientId{client};
    options.open.client_name = "client " + std::to_string(client);
    options.open.steal = true;
    const auto make = [&, stops](const std::string& source, std::string*) -> Result<std::unique_ptr<Brick>> {
      if (stops && source.starts_with("tcp://b")) {
        first_is_at_b = true;
        comes_true([&] { return goes_on.load(); });
      }
      return bricks_.at(source)->make_brick();
    };
    return VolumeSet::open(std::make_unique<MemoryMapStore>(map_), make, options, refusal);
  };
  SetRefusal refusals[2];
  Result<std::unique_ptr<VolumeSet>> sets[2] = {Error(ECANCELED, "not opened"), Error(ECANCELED, "not opened")};
  std::atomic<bool> second_is_done{false};
  std::thread first([&] { sets[0] = steal(7, &refusals[0], true); });
  ASSERT_TRUE(comes_true([&] { return first_is_at_b.load(); }));
  std::thread second([&] {
    sets[1] = steal(8, &refusals[1], false);
    second_is_done = true;
  });
  comes_true([&] { return second_is_done.load(); }, milliseconds(1'500));
  goes_on = true;
  first.join();
  second.join();
  size_t served = 0;
  for (size_t i = 0; i < 2; ++i) {
    if (!sets[i].ok()) {
      EXPECT_EQ(sets[i].code(), EBUSY) << refusals[i].why;
      EXPECT_EQ(refusals[i].why.find("backup"), std::string::npos) << refusals[i].why;
      continue;
    }
    const bool has_it = settle(**sets[i]).ok() && write(**sets[i], raw(kData.start), filled(4096, 1)).ok();
    served += has_it ? 1 : 0;
  }
  EXPECT_EQ(served, 1u) << refusals[0].why << "; " << refusals[1].why;
  EXPECT_FALSE(map_->get()->map.taker);
}

// It was mounted with `steal`, has a copy left out, and nobody has unmounted it.
TEST_F(OtherClients, AFormerHolderTakesNothingFromTheNextOne) {
  start(2, 2, 0);
  steal_ = true;
  const auto former = open(7);
  ASSERT_NE(former, nullptr);
  ASSERT_TRUE(former->alloc(kData).ok());
  go_away('b');
  ASSERT_TRUE(write(*former, raw(kData.start), filled(4096, 1)).ok());
  ASSERT_TRUE(is_in_state(1, ReplicaState::kStale));
  ASSERT_TRUE(comes_true([&] { return entry(1).missed != 0; }));
  const auto next = open(8);
  ASSERT_NE(next, nullptr);
  EXPECT_TRUE(comes_true([&] { return former->final_error().code() == ESTALE; }));
  come_back('b');
  EXPECT_TRUE(is_in_state(1, ReplicaState::kInSync));
  ASSERT_NO_FATAL_FAILURE(write_for_long(*next));
  EXPECT_EQ(entry(1).state, ReplicaState::kInSync);
  EXPECT_EQ(next->mirror(0).copies().size(), 2u);
}

// The same, cut off from etcd and from all copies but the one that was left out.
TEST_F(OtherClients, AFormerHolderWithoutAMapTakesNothingEither) {
  start(2, 2, 0);
  steal_ = true;
  own_faults_ = std::make_shared<BrickFaults>([this] { return make_embedded_brick(brick('a').service()); });
  const std::unique_ptr<VolumeSet> former = open(7);
  ASSERT_NE(former, nullptr);
  ASSERT_TRUE(former->alloc(kData).ok());
  go_away('b');
  ASSERT_TRUE(write(*former, raw(kData.start), filled(4096, 1)).ok());
  ASSERT_TRUE(is_in_state(1, ReplicaState::kStale));
  store_->set_away(true);
  const auto cut_off = std::exchange(own_faults_, nullptr);
  cut_off->refuse(true);
  cut_off->lose();
  const auto next = open(8);
  ASSERT_NE(next, nullptr);
  come_back('b');
  EXPECT_TRUE(is_in_state(1, ReplicaState::kInSync));
  ASSERT_NO_FATAL_FAILURE(write_for_long(*next));
  EXPECT_EQ(next->mirror(0).copies().size(), 2u);
}

TEST_F(OtherClients, ReadersGoOnAsLongAsTheMapIsWhatItWas) {
  start(2, 2, 0);
  auto set = open();
  ASSERT_NE(set, nullptr);
  ASSERT_TRUE(set->alloc(kData).ok());
  ASSERT_TRUE(write(*set, raw(kData.start), filled(4096, 1)).ok());
  ASSERT_TRUE(set->close().ok());
  set.reset();
  mode_ = OpenMode::kReadOnly;
  soft_ = milliseconds(7'000);
  set = open();
  ASSERT_NE(set, nullptr);
  go_away('b');
  std::this_thread::sleep_for(milliseconds(5'500));  // longer than what b said holds
  EXPECT_EQ(*read(*set, raw(kData.start), 4096), filled(4096, 1));
  SetMap map = map_->get()->map;
  map.holder = MapHolder{ClientId{8}, "writer", ++map.generation, false};
  map_->restore(map);
  std::this_thread::sleep_for(milliseconds(5'500));
  EXPECT_EQ(read(*set, raw(kData.start), 4096).code(), EIO);
}

// Of one that restarts a reader has nothing more, and it leaves nobody out.
TEST_F(OtherClients, ReadersGoOnWithTheOtherCopy) {
  start(2, 2, 0);
  auto set = open();
  ASSERT_NE(set, nullptr);
  ASSERT_TRUE(set->alloc(kData).ok());
  ASSERT_TRUE(write(*set, raw(kData.start), filled(4096, 1)).ok());
  ASSERT_TRUE(set->close().ok());
  set.reset();
  mode_ = OpenMode::kReadOnly;
  soft_ = milliseconds(8'000);  // else it would wait for ever
  set = open();
  ASSERT_NE(set, nullptr);
  EXPECT_EQ(*read(*set, raw(kData.start), 4096), filled(4096, 1));
  brick('a').restart();
  EXPECT_EQ(*read(*set, raw(kData.start), 4096), filled(4096, 1));
  go_away('b');
  std::thread later([this] {
    std::this_thread::sleep_for(milliseconds(1'000));
    come_back('b');
  });
  EXPECT_EQ(*read(*set, raw(kData.start), 4096), filled(4096, 1)) << "waits for the one that may come back";
  later.join();
}

// A map names bricks that another set has, or somebody takes one of them for a volume of its own.
TEST_F(OtherClients, WhoStealsFencesNobodyOfAnotherSet) {
  start(2, 2, 0);
  const auto set = open();
  ASSERT_NE(set, nullptr);
  ASSERT_TRUE(set->alloc(kData).ok());
  const auto ours = std::exchange(map_, std::make_shared<MemoryMap>());
  SetMap other = ours->get()->map;
  other.set[0] = std::byte{99};
  other.holder.reset();
  ASSERT_TRUE(map_->replace(other, 0).ok());
  steal_ = true;
  EXPECT_EQ(try_open(8).code(), EUCLEAN);
  EXPECT_NE(refusal_.why.find("belongs to another volume"), std::string::npos) << refusal_.why;
  VolumeOptions options;
  options.open.client = ClientId{9};
  options.open.steal = true;
  EXPECT_EQ(VolumeSet::open(brick('b').make_brick(), options, nullptr).code(), EUCLEAN);
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(write(*set, raw(kData.start), filled(4096, i)).ok());
    std::this_thread::sleep_for(milliseconds(20));
  }
  EXPECT_EQ(ours->get()->map.places[0].replicas[1].state, ReplicaState::kInSync);
}

}  // namespace
}  // namespace brickfs
