// SPDX-License-Identifier: Apache-2.0
// Replicas to which others write blocks that were lent to them.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "tests/support/kept_bytes.h"
#include "tests/support/replica_bed.h"

namespace brickfs::testing {
namespace {

using namespace std::chrono_literals;

class MirrorLending : public ReplicaBed {
 protected:
  static constexpr ClientId kMember{70};
  static constexpr BlockRange kLent{kData.start, 1};
  static constexpr uint64_t kAddress = raw(kLent.start) + 4096;

  void start_lending() {
    start(2, 2, 64);
    set_ = open();
    ASSERT_NE(set_, nullptr);
    ASSERT_TRUE(set_->alloc(kData).ok());
    ASSERT_TRUE(set_->commit().ok());
    for (const char name : {'a', 'b'}) brick(name).remember_commits();
    ASSERT_EQ(set_->begin_lending(kLent, kMember, nullptr).code(), 0);
    told_ = set_->readable(0);
    ASSERT_EQ(told_.size(), 2u);
  }
  VolumeSet& set() { return *set_; }
  void crash() { set_.reset(); }
  std::vector<ReadableBrick>& told() { return told_; }

  // To that brick alone, as a member does, that goes then.
  void member_writes_to(char name, uint64_t address, const Bytes& bytes) {
    const std::string source = std::string("tcp://") + name + ":20470/default";
    const auto told = std::ranges::find(told_, source, &ReadableBrick::source);
    ASSERT_NE(told, told_.end());
    VolumeOptions options;
    options.open.client = kMember;
    options.open.client_name = "member";
    options.open.mode = OpenMode::kFollow;
    options.open.bound = options.open.writes = true;
    options.open.resume = told->epoch;
    const auto member = VolumeClient::open(make_embedded_brick(brick(name).service()), options, nullptr);
    ASSERT_EQ(member.code(), 0);
    Bytes copy = bytes;
    const Piece piece{address, {{copy.data(), static_cast<uint32_t>(copy.size()), 0}}};
    ASSERT_TRUE((*member)->write(std::span(&piece, 1), Stage::kData).ok());
    ASSERT_TRUE((*member)->make_visible().ok());
    ASSERT_TRUE((*member)->close().ok());
  }
  void member_writes(const Bytes& bytes) {
    for (const char name : {'a', 'b'}) member_writes_to(name, kAddress, bytes);
  }
  Status adopt(const Bytes& bytes) {
    const LentRange range{kAddress, bytes.size()};
    const LentPlace place{0, told_};
    return set_->adopt(std::span(&range, 1), std::span(&place, 1), std::make_shared<KeptBytes>(kAddress, bytes, watch_),
                       nullptr);
  }
  void expect_equal(const Bytes& bytes) {
    for (const char name : {'a', 'b'}) EXPECT_EQ(on_brick(name, kAddress, bytes.size()), bytes) << name;
  }
  KeptBytes::Watch& watch() { return *watch_; }

 private:
  const std::shared_ptr<KeptBytes::Watch> watch_ = std::make_shared<KeptBytes::Watch>();
  std::unique_ptr<VolumeSet> set_;
  std::vector<ReadableBrick> told_;
};

TEST_F(MirrorLending, WhatIsAdoptedIsCommittedOnAllReplicas) {
  start_lending();
  member_writes(filled(8192, 7));
  ASSERT_EQ(adopt(filled(8192, 7)).code(), 0);
  EXPECT_EQ(*read(set(), kAddress, 8192), filled(8192, 7));
  EXPECT_FALSE(watch().is_over);
  ASSERT_TRUE(set().commit().ok());
  EXPECT_TRUE(watch().is_over);
  set().end_lending(kLent);
  for (const char name : {'a', 'b'}) brick(name).restart_from_commit();
  EXPECT_EQ(*read(set(), kAddress, 8192), filled(8192, 7));
  EXPECT_EQ(watch().fetched, 0);
  crash();
  expect_equal(filled(8192, 7));
}

TEST_F(MirrorLending, AReplicaThatRestartsGetsItFromAnother) {
  start_lending();
  member_writes(filled(8192, 7));
  ASSERT_TRUE(adopt(filled(8192, 7)).ok());
  watch().member_is_gone = true;
  brick('a').restart_from_commit();
  ASSERT_TRUE(comes_true([&] { return set().readable(0).size() == 2; }));
  EXPECT_EQ(watch().fetched, 0);
  brick('b').restart_from_commit();
  EXPECT_EQ(*read(set(), kAddress, 8192), filled(8192, 7));
  ASSERT_TRUE(set().commit().ok());
  EXPECT_TRUE(watch().is_over);
  crash();
  expect_equal(filled(8192, 7));
}

TEST_F(MirrorLending, IfAllRestartTheMemberIsAsked) {
  start_lending();
  member_writes(filled(8192, 7));
  ASSERT_TRUE(adopt(filled(8192, 7)).ok());
  for (const char name : {'a', 'b'}) brick(name).faults().refuse(true);
  for (const char name : {'a', 'b'}) brick(name).restart_from_commit();
  for (const char name : {'a', 'b'}) brick(name).faults().refuse(false);
  EXPECT_EQ(*read(set(), kAddress, 8192), filled(8192, 7));
  EXPECT_GT(watch().fetched, 0);
  ASSERT_TRUE(set().commit().ok());
  crash();
  expect_equal(filled(8192, 7));
}

TEST_F(MirrorLending, IfAllAreGoneTheReplicasAreMadeEqual) {
  start_lending();
  ASSERT_TRUE(write(set(), raw(kLent.start), filled(4096, 3)).ok());
  ASSERT_TRUE(set().commit().ok());
  member_writes(filled(8192, 7));
  ASSERT_TRUE(adopt(filled(8192, 7)).ok());
  watch().member_is_gone = true;
  for (const char name : {'a', 'b'}) brick(name).faults().refuse(true);
  for (const char name : {'a', 'b'}) brick(name).restart_from_commit();
  for (const char name : {'a', 'b'}) brick(name).faults().refuse(false);
  EXPECT_TRUE(comes_true([&] { return set().readable(0).size() == 2; }));
  EXPECT_EQ(*read(set(), kAddress, 8192), Bytes(8192));
  EXPECT_EQ(*read(set(), raw(kLent.start), 4096), filled(4096, 3));
  ASSERT_TRUE(set().commit().ok());
  crash();
  expect_equal(Bytes(8192));
}

TEST_F(MirrorLending, WithoutOneThatIsOutItIsAdoptedAndTheOtherGetsItLater) {
  start_lending();
  go_away('b');
  ASSERT_TRUE(comes_true([&] { return set().readable(0).size() == 1; }));
  ASSERT_TRUE(is_in_state(1, ReplicaState::kStale));
  const auto both = told();
  member_writes(filled(8192, 9));  // to the one that is out, too, as it has heard of that late
  EXPECT_EQ(adopt(filled(8192, 9)).code(), EAGAIN);
  told() = set().readable(0);
  member_writes_to('a', kAddress, filled(8192, 7));
  ASSERT_EQ(adopt(filled(8192, 7)).code(), 0);
  come_back('b');
  ASSERT_TRUE(is_in_state(1, ReplicaState::kInSync));
  EXPECT_EQ(adopt(filled(8192, 7)).code(), EAGAIN) << "the other one is written to again";
  told() = both;
  EXPECT_EQ(adopt(filled(8192, 7)).code(), EAGAIN) << "in another life";
  ASSERT_TRUE(set().commit().ok());
  crash();
  expect_equal(filled(8192, 7));
}

TEST_F(MirrorLending, AReplicaInAnotherLifeIsNotTaken) {
  start_lending();
  member_writes(filled(8192, 7));
  brick('b').restart_from_commit();
  ASSERT_TRUE(comes_true([&] { return set().readable(0).size() == 2; }));
  EXPECT_EQ(adopt(filled(8192, 7)).code(), EAGAIN);
  EXPECT_TRUE(set().readable(0).size() == 2) << "none is left out for it";
  ASSERT_TRUE(write(set(), kAddress, filled(8192, 8)).ok());
  set().end_lending(kLent);
  ASSERT_TRUE(set().commit().ok());
  crash();
  expect_equal(filled(8192, 8));
}

// A copy from one replica to the other may have met the member's write.
TEST_F(MirrorLending, WhatMetACopyBetweenReplicasIsNotTaken) {
  start_lending();
  brick('b').faults().refuse(true);
  brick('b').faults().lose();
  Interruption by;
  by.raise();
  Bytes bytes = filled(4096, 1);
  const Piece piece{raw(kLent.start), {{bytes.data(), 4096, 0}}};
  ASSERT_EQ(set().write(std::span(&piece, 1), Stage::kData, &by).code(), EINTR);
  EXPECT_TRUE(set().readable(0).empty());
  come_back('b');
  ASSERT_TRUE(comes_true([&] { return set().readable(0).size() == 2; }));
  EXPECT_EQ(set().readable(0)[1].epoch, told()[1].epoch) << "it was left out";
  member_writes(filled(8192, 7));
  EXPECT_EQ(adopt(filled(8192, 7)).code(), EAGAIN);
  set().end_lending(kLent);
  ASSERT_TRUE(set().begin_lending(kLent, kMember, nullptr).ok());
  member_writes(filled(8192, 8));
  EXPECT_EQ(adopt(filled(8192, 8)).code(), 0);
}

// The member and the holder die in the middle of a write: to one replica, and not to the other.
TEST_F(MirrorLending, BehindACrashLentBlocksAreEqual) {
  start_lending();
  member_writes_to('a', kAddress, filled(8192, 7));
  crash();
  const auto next = open();
  ASSERT_NE(next, nullptr);
  ASSERT_TRUE(next->close().ok());
  EXPECT_EQ(on_brick('a', kAddress, 8192), on_brick('b', kAddress, 8192));
}

// The same with a holder who ends in order, and has not had it back.
TEST_F(MirrorLending, BehindAnEndWithLentBlocksTheyAreEqual) {
  start_lending();
  member_writes_to('a', kAddress, filled(8192, 7));
  ASSERT_TRUE(set().commit().ok());
  ASSERT_TRUE(set().close().ok());
  crash();
  const auto next = open();
  ASSERT_NE(next, nullptr);
  ASSERT_TRUE(next->close().ok());
  EXPECT_EQ(on_brick('a', kAddress, 8192), on_brick('b', kAddress, 8192));
}

TEST_F(MirrorLending, WhoIsExpelledIsSoOnAllThatAreThere) {
  start_lending();
  ASSERT_TRUE(set().expel(kMember).ok());
  for (const char name : {'a', 'b'}) {
    OpenRequest request;
    request.client = kMember;
    request.mode = OpenMode::kFollow;
    request.bound = request.writes = true;
    request.resume = told()[name - 'a'].epoch;
    EXPECT_EQ(make_embedded_brick(brick(name).service())->open(request, nullptr).code(), ESTALE);
  }
  ASSERT_TRUE(set().begin_lending({block_after(kLent.start, 1), 1}, kMember, nullptr).ok());
  go_away('b');
  EXPECT_NE(set().expel(kMember).code(), 0) << "it may be writing there";
  ASSERT_TRUE(is_in_state(1, ReplicaState::kStale));
  EXPECT_TRUE(comes_true([&] { return set().expel(kMember).ok(); }));
}

}  // namespace
}  // namespace brickfs::testing
