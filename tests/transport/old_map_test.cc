// SPDX-License-Identifier: Apache-2.0
// A map that was put back, and says of copies what was true once: no client believes it.
#include "tests/support/replica_bed.h"

namespace brickfs {
namespace {

class OldMap : public testing::ReplicaBed {
 protected:
  // b is out, and something is written without it: the map from before is of a backup then.
  void expect_refused_once_written(std::unique_ptr<VolumeSet>& set, const SetMap& old) {
    ASSERT_TRUE(is_in_state(1, ReplicaState::kStale));
    ASSERT_TRUE(write(*set, raw(kData.start), filled(4096, 8)).ok());
    set.reset();
    come_back('b');
    map_->restore(old);
    EXPECT_EQ(try_open(9).error().code(), EUCLEAN);
  }
};

TEST_F(OldMap, FromABackupIsRefused) {
  start(2, 2, 0);
  auto set = open();
  const SetMap old = map_->get()->map;
  ASSERT_TRUE(set->alloc(kData).ok());
  ASSERT_TRUE(set->close().ok());
  set.reset();
  set = open();
  ASSERT_NE(set, nullptr);
  ASSERT_TRUE(set->close().ok());
  map_->restore(old);
  EXPECT_EQ(try_open().error().code(), EUCLEAN);
  EXPECT_NE(refusal_.why.find("backup"), std::string::npos) << refusal_.why;
}

// The map is of the same mount: it calls a copy in sync that was left out since, and is there again.
TEST_F(OldMap, FromBeforeACopyWasLeftOutIsRefused) {
  start(2, 2, 0);
  auto set = open();
  ASSERT_NE(set, nullptr);
  ASSERT_TRUE(set->alloc(kData).ok());
  const SetMap old = map_->get()->map;
  go_away('a');
  ASSERT_TRUE(write(*set, raw(kData.start), filled(4096, 7)).ok());
  ASSERT_TRUE(set->close().ok());
  set.reset();
  come_back('a');
  const SetMap newest = map_->get()->map;
  map_->restore(old);
  EXPECT_EQ(try_open().error().code(), EUCLEAN);
  EXPECT_NE(refusal_.why.find("backup"), std::string::npos) << refusal_.why;
  map_->restore(newest);
  set = open();
  ASSERT_NE(set, nullptr);
  EXPECT_EQ(*read(*set, raw(kData.start), 4096), filled(4096, 7));
}

// Also if the client and the other brick crash before anything is committed.
TEST_F(OldMap, FromBeforeACopyWasLeftOutIsRefusedAfterACrash) {
  start(2, 2, 64);
  auto set = open();
  ASSERT_NE(set, nullptr);
  ASSERT_TRUE(set->alloc(kData).ok());
  ASSERT_TRUE(set->commit().ok());
  const SetMap old = map_->get()->map;
  go_away('a');
  ASSERT_TRUE(write(*set, raw(kData.start), filled(4096, 7)).ok());
  set.reset();
  brick('b').restart();
  come_back('a');
  map_->restore(old);
  EXPECT_EQ(try_open().error().code(), EUCLEAN);
  EXPECT_NE(refusal_.why.find("backup"), std::string::npos) << refusal_.why;
}

// One is left out before the last client's work is settled.
TEST_F(OldMap, FromBeforeACopyWasLeftOutAtTheMountIsRefused) {
  ASSERT_NO_FATAL_FAILURE(write_and_crash());
  auto opened = try_open(8);
  ASSERT_TRUE(opened.ok());
  const SetMap old = map_->get()->map;
  go_away('b');
  ASSERT_TRUE(settle(**opened).ok());
  ASSERT_NO_FATAL_FAILURE(expect_refused_once_written(*opened, old));
}

// The same when the first one has its mark already, of the map from before.
TEST_F(OldMap, FromBeforeACopyWasLeftOutBehindTheFirstMarkIsRefused) {
  uint64_t commits = 0;  // of the first one, until it has its mark
  for (const bool goes : {false, true}) {
    map_ = std::make_shared<MemoryMap>();
    bricks_.clear();
    ASSERT_NO_FATAL_FAILURE(write_and_crash());
    auto opened = try_open(8);
    ASSERT_TRUE(opened.ok());
    const SetMap old = map_->get()->map;
    std::atomic<uint64_t> done{0};
    brick('a').faults().set_after_commit([&] {
      if (++done == commits) go_away('b');
    });
    ASSERT_TRUE(settle(**opened).ok());
    commits = done;
    if (!goes) continue;
    ASSERT_NO_FATAL_FAILURE(expect_refused_once_written(*opened, old));
  }
}

}  // namespace
}  // namespace brickfs
