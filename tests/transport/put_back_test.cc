// SPDX-License-Identifier: Apache-2.0
// The store of a brick that has copies is replaced by an older copy of it: what that lacks is noticed, and nothing that
// is as it was is taken for old.
#include "tests/support/replica_bed.h"
#include "transport/volume/set_membership.h"

namespace brickfs {
namespace {

class PutBack : public testing::ReplicaBed {
 protected:
  std::unique_ptr<VolumeSet> begin(uint64_t replicas = 2) {
    start(replicas, replicas, 64);
    auto set = open();
    EXPECT_NE(set, nullptr);
    EXPECT_TRUE(set->alloc(kData).ok());
    put(*set, 1);
    return set;
  }
  static void put(VolumeSet& set, int value) {
    ASSERT_TRUE(write(set, raw(kData.start), filled(4096, value)).ok());
    ASSERT_TRUE(set.commit().ok());
  }
  static void end(std::unique_ptr<VolumeSet>& set) {
    ASSERT_TRUE(set->close().ok());
    set.reset();
  }
  void expect(VolumeSet& set, int value) {
    const auto bytes = read(set, raw(kData.start), 4096);
    ASSERT_TRUE(bytes.ok()) << bytes.error().what();
    EXPECT_EQ((*bytes)[0], static_cast<std::byte>(value));
  }
  void expect_equal_in_the_end(std::unique_ptr<VolumeSet>& set, int value) {
    expect(*set, value);
    EXPECT_TRUE(is_in_state(0, ReplicaState::kInSync));
    EXPECT_TRUE(is_in_state(1, ReplicaState::kInSync));
    end(set);
    for (const char name : {'a', 'b'}) EXPECT_EQ(on_brick(name, raw(kData.start), 4096), filled(4096, value)) << name;
  }
  bool has_blocks_without_mark(char name) {
    const auto follower = make_embedded_brick(brick(name).service());
    OpenRequest request;
    request.client = ClientId{0x888};
    request.mode = OpenMode::kFollow;
    if (!follower->open(request, nullptr).ok()) return false;
    const auto listed = list_blocks(*follower);
    const auto mark = read_replica_mark(*follower, 0);
    EXPECT_TRUE(follower->close().ok());
    return listed.ok() && BlockSet{*listed}.count() > 1 && (!mark.ok() || !*mark);
  }
  // As a brickfs left it that knew nothing of `marked`.
  void forget_marked() {
    SetMap map = map_->get()->map;
    for (MapReplica& replica : map.places[0].replicas) replica.marked = 0;
    map_->restore(map);
  }
};

TEST_F(PutBack, AStoreFromAnEarlierMountIsCopiedAnew) {
  for (const bool former_version : {false, true}) {
    map_ = std::make_shared<MemoryMap>();
    bricks_.clear();
    auto set = begin();
    end(set);
    brick('a').copy_store();
    set = open();
    put(*set, 2);
    end(set);
    if (former_version) forget_marked();
    brick('a').put_store_back();
    set = open(8);
    ASSERT_NE(set, nullptr);
    expect_equal_in_the_end(set, 2);
  }
}

// A snapshot of a brick at work, in the same mount.
TEST_F(PutBack, AStoreFromTheSameMountIsCopiedAnew) {
  auto set = begin();
  brick('a').copy_running_store();
  put(*set, 2);
  end(set);
  brick('a').put_store_back();
  set = open(8);
  ASSERT_NE(set, nullptr);
  expect_equal_in_the_end(set, 2);
}

// Nobody let go, all bricks were started again, and the first copy is an older one.
TEST_F(PutBack, AStoreFromAnEarlierMountIsCopiedAnewAfterACrash) {
  auto set = begin();
  end(set);
  brick('a').copy_store();
  set = open();
  put(*set, 2);
  set.reset();
  brick('a').put_store_back();
  brick('b').restart();
  set = open(8);
  ASSERT_NE(set, nullptr);
  expect_equal_in_the_end(set, 2);
}

// It was left out, and what it missed is known: not that it has lost more.
TEST_F(PutBack, AStoreOfACopyThatIsLeftOutIsCopiedAnew) {
  auto set = begin();
  const uint64_t before = entry(1).marked;
  brick('b').copy_store();  // and marked behind that
  ASSERT_TRUE(comes_true([&] { return entry(1).marked > before; }));
  put(*set, 2);
  go_away('b');
  ASSERT_TRUE(write(*set, raw(kData.start) + kBlockBytes, filled(4096, 3)).ok());
  ASSERT_TRUE(is_in_state(1, ReplicaState::kStale));
  brick('b').put_store_back();
  come_back('b');
  expect_equal_in_the_end(set, 2);
}

// What is being copied to it would be taken for a stranger's, if it were written again without the mark, and the client
// ended then.
TEST_F(PutBack, OneThatIsWipedWhileItIsCopiedBeginsAnew) {
  start(2, 2, 64);
  brick('b').copy_store();  // empty
  auto set = open();
  ASSERT_NE(set, nullptr);
  ASSERT_TRUE(set->alloc(kData).ok());
  put(*set, 1);
  go_away('b');
  ASSERT_TRUE(is_in_state(1, ReplicaState::kStale));
  brick('b').put_store_back();
  std::atomic<int> batches{0};
  std::atomic<bool> strange{false};
  brick('b').faults().set_before_transfers([&] {
    ++batches;
    if (has_blocks_without_mark('b')) strange = true;
    std::this_thread::sleep_for(milliseconds(20));
  });
  come_back('b');
  ASSERT_TRUE(comes_true([&] { return batches > 6; }));
  EXPECT_EQ(entry(1).state, ReplicaState::kSyncing);
  brick('b').put_store_back();
  expect_equal_in_the_end(set, 1);
  EXPECT_FALSE(strange);
}

// By its mark, and by the session, the older store is the same one: only what was committed meanwhile is gone.
TEST_F(PutBack, AnOlderStoreWhileItIsCopiedBeginsAnew) {
  constexpr BlockRange kMany{BlockAddress{16 * kBlockBytes}, 24};
  start(2, 2, 64);
  brick('b').copy_store();  // empty
  auto set = open();
  ASSERT_NE(set, nullptr);
  ASSERT_TRUE(set->alloc(kData).ok());
  put(*set, 2);
  const auto address = [&](uint64_t i) { return raw(block_after(kMany.start, i)); };
  ASSERT_TRUE(set->alloc(kMany).ok());
  for (uint64_t i = 0; i < kMany.count; ++i) ASSERT_TRUE(write(*set, address(i), filled(4096, 2)).ok());
  ASSERT_TRUE(set->commit().ok());
  go_away('b');
  ASSERT_TRUE(is_in_state(1, ReplicaState::kStale));
  brick('b').put_store_back();
  std::atomic<int> batches{0};
  brick('b').faults().set_before_transfers([&] {
    ++batches;
    std::this_thread::sleep_for(milliseconds(20));
  });
  const auto goes_on = [&](int more) { return comes_true([&, until = batches + more] { return batches > until; }); };
  come_back('b');
  ASSERT_TRUE(goes_on(8));
  brick('b').copy_store();
  ASSERT_TRUE(goes_on(16));
  ASSERT_TRUE(set->commit().ok());
  EXPECT_EQ(entry(1).state, ReplicaState::kSyncing);
  brick('b').put_store_back();
  brick('b').faults().set_before_transfers(nullptr);
  expect_equal_in_the_end(set, 2);
  for (uint64_t i = 0; i < kMany.count; ++i) EXPECT_EQ(on_brick('b', address(i), 4096), filled(4096, 2)) << i;
}

// So soon that the brick is not missed.
TEST_F(PutBack, UnderAMountThatCopyIsLeftOutAndTheOthersServe) {
  for (const bool same_mount : {false, true}) {
    map_ = std::make_shared<MemoryMap>();
    bricks_.clear();
    auto set = begin();
    if (!same_mount) end(set);
    const uint64_t before = entry(0).marked;
    brick('a').copy_store();
    if (!same_mount) set = open();
    ASSERT_TRUE(comes_true([&] { return entry(0).marked > before; }));
    put(*set, 2);
    brick('a').put_store_back();
    expect(*set, 2);
    put(*set, 3);
    EXPECT_TRUE(set->final_error().ok());
    expect_equal_in_the_end(set, 3);
  }
}

TEST_F(PutBack, WhereAllAreOlderThatHasToBeAccepted) {
  auto set = begin();
  end(set);
  for (const char name : {'a', 'b'}) brick(name).copy_store();
  set = open();
  put(*set, 2);
  end(set);
  for (const char name : {'a', 'b'}) brick(name).put_store_back();
  EXPECT_EQ(try_open(8).code(), EUCLEAN);
  EXPECT_NE(refusal_.why.find("accept_older"), std::string::npos) << refusal_.why;
  EXPECT_NE(refusal_.why.find("tcp://a:20470/default, tcp://b:20470/default"), std::string::npos) << refusal_.why;
  accept_older_ = true;
  set = open(8);
  ASSERT_NE(set, nullptr);
  expect_equal_in_the_end(set, 1);
  accept_older_ = false;
  set = open(9);  // once is enough
  ASSERT_NE(set, nullptr);
  expect_equal_in_the_end(set, 1);
}

// The newest of them; also while the one that has everything is away.
TEST_F(PutBack, AnOlderOneAloneHasToBeAccepted) {
  auto set = begin();
  end(set);
  brick('a').copy_store();
  set = open();
  put(*set, 2);
  end(set);
  brick('a').put_store_back();
  brick('b').faults().refuse(true);
  EXPECT_EQ(try_open(8).code(), EUCLEAN);
  EXPECT_NE(refusal_.why.find("not there: tcp://b:20470/default"), std::string::npos) << refusal_.why;
  come_back('b');
  set = open(8);
  ASSERT_NE(set, nullptr);
  expect_equal_in_the_end(set, 2);
}

// Mounts that end well, die, or die before anything is settled; copies that are left out, come back, and are there
// again; bricks that restart; maps of a former version: nothing is called old that is as it was.
TEST_F(PutBack, NothingThatIsAsItWasIsCalledOld) {
  auto set = begin();
  const auto check = [&](const char* what, int value) {
    SCOPED_TRACE(what);
    ASSERT_NE(set, nullptr);
    const SetMap map = map_->get()->map;
    for (const MapReplica& replica : map.places[0].replicas) EXPECT_EQ(replica.state, ReplicaState::kInSync);
    expect(*set, value);
  };
  end(set);
  set = open();
  check("after a mount that let go", 1);
  put(*set, 2);
  set.reset();
  set = open(8);
  check("after one that died", 2);
  set.reset();
  {
    const auto opened = try_open(9);
    ASSERT_TRUE(opened.ok());
  }
  set = open(10);
  check("after one that died before it was settled", 2);
  go_away('b');
  put(*set, 3);
  ASSERT_TRUE(is_in_state(1, ReplicaState::kStale));
  come_back('b');
  ASSERT_TRUE(is_in_state(1, ReplicaState::kInSync));
  end(set);
  set = open(11);
  check("after one came back", 3);
  go_away('b');
  put(*set, 4);
  ASSERT_TRUE(is_in_state(1, ReplicaState::kStale));
  end(set);
  brick('b').restart();
  come_back('b');
  set = open(12);
  ASSERT_TRUE(is_in_state(1, ReplicaState::kInSync));
  set.reset();
  set = open(13);
  check("after one came back to another mount, which died", 4);
  end(set);
  forget_marked();
  brick('a').restart();
  brick('b').restart();
  set = open(14);
  check("after a former version", 4);
  end(set);
}

}  // namespace
}  // namespace brickfs
