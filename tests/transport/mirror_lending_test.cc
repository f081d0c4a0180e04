// SPDX-License-Identifier: Apache-2.0
// Replicas to which others write blocks that were lent to them.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <memory>
#include <random>
#include <thread>
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
    ASSERT_EQ(set_->begin_lending(kLent, kMember, nullptr).code(), 0);
    told_ = set_->readable(0);
    ASSERT_EQ(told_.size(), 2u);
  }
  void remember_commits() {
    for (const char name : {'a', 'b'}) brick(name).remember_commits();
  }
  VolumeSet& set() { return *set_; }
  void crash() { set_.reset(); }
  std::vector<ReadableBrick>& told() { return told_; }

  // To that brick alone, in that life, as a member does, that goes then.
  Status member_writes_to(const ReadableBrick& told, uint64_t address, const Bytes& bytes) {
    const auto service = bricks_.at(told.source)->service();
    if (service == nullptr) return Error(ENOTCONN, "the brick restarts");
    VolumeOptions options;
    options.open.client = kMember;
    options.open.client_name = "member";
    options.open.mode = OpenMode::kFollow;
    options.open.bound = options.open.writes = true;
    options.open.resume = told.epoch;
    options.soft = 2s;
    const auto member = TRY(VolumeClient::open(make_embedded_brick(service), options, nullptr));
    if (member->boot() != told.boot) return Error(EAGAIN, "another life");
    Bytes copy = bytes;
    const Piece piece{address, {{copy.data(), static_cast<uint32_t>(copy.size()), 0}}};
    TRY(member->write(std::span(&piece, 1), Stage::kData));
    TRY(member->make_visible());
    return member->close();
  }
  void member_writes_to(char name, uint64_t address, const Bytes& bytes) {
    const std::string source = std::string("tcp://") + name + ":20470/default";
    const auto told = std::ranges::find(told_, source, &ReadableBrick::source);
    ASSERT_NE(told, told_.end());
    ASSERT_EQ(member_writes_to(*told, address, bytes).code(), 0);
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
  remember_commits();
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
  remember_commits();
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
  remember_commits();
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
  remember_commits();
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
  told() = set().readable(0);
  EXPECT_EQ(*read(set(), kAddress, 8192), filled(8192, 7));
  member_writes(filled(4096, 8));  // it is let in there, too
  ASSERT_EQ(adopt(filled(4096, 8)).code(), 0);
  ASSERT_TRUE(set().commit().ok());
  crash();
  for (const char name : {'a', 'b'}) EXPECT_EQ(on_brick(name, kAddress + 4096, 4096), filled(4096, 7));
  expect_equal(filled(4096, 8));
}

TEST_F(MirrorLending, AReplicaInAnotherLifeIsNotTaken) {
  start_lending();
  remember_commits();
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

// A member that writes to lent blocks, and keeps what it wrote; what is not taken the holder writes instead.
class MirrorLendingToAMember : public MirrorLending {
 protected:
  static constexpr uint64_t kSlots = 64;
  static uint64_t address_of(uint64_t slot) {
    return raw(block_after(kData.start, slot % kData.count)) + slot / kData.count * 4096;
  }

  void step(std::mt19937_64& random) {
    const uint64_t slot = random() % kSlots;
    const int value = static_cast<int>(1 + random() % 250);
    const Bytes bytes = filled(4096, value);
    const std::vector<ReadableBrick> bricks = set().readable(0);
    const bool written = !bricks.empty() && std::ranges::all_of(bricks, [&](const ReadableBrick& told) {
      return member_writes_to(told, address_of(slot), bytes).ok();
    });
    if (random() % 4 == 0) std::this_thread::sleep_for(milliseconds(random() % 20));
    const LentRange range{address_of(slot), 4096};
    const LentPlace place{0, bricks};
    const auto kept = std::make_shared<KeptBytes>(address_of(slot), bytes, std::make_shared<KeptBytes::Watch>());
    const Status adopted =
        written ? set().adopt(std::span(&range, 1), std::span(&place, 1), kept, nullptr) : Error(EAGAIN, "not written");
    ASSERT_TRUE(adopted.ok() || adopted.code() == EAGAIN) << adopted.error().what();
    if (adopted.ok()) {
      ++adopted_;
    } else {
      ASSERT_TRUE(write(set(), address_of(slot), bytes).ok());
    }
    values_[slot] = value;
    const uint64_t other = random() % kSlots;
    ASSERT_EQ(*read(set(), address_of(other), 4096), filled(4096, values_[other])) << "slot " << other;
    if (random() % 16 == 0) {
      ASSERT_TRUE(set().commit().ok());
    }
  }
  void disturb(std::mt19937_64& random) {
    const char name = random() % 2 == 0 ? 'a' : 'b';
    std::this_thread::sleep_for(milliseconds(random() % 300));
    switch (random() % 3) {
      case 0:
        return brick(name).restart();
      case 1:
        return brick(name).faults().lose();
      default:
        go_away(name);
        std::this_thread::sleep_for(milliseconds(random() % 2'000));
        come_back(name);
        ASSERT_TRUE(is_in_state(name - 'a', ReplicaState::kInSync));
    }
  }
  void check() {
    for (uint64_t slot = 0; slot < kSlots; ++slot) {
      for (const char name : {'a', 'b'})
        ASSERT_EQ(on_brick(name, address_of(slot), 4096), filled(4096, values_[slot])) << name << ", slot " << slot;
    }
  }
  int adopted() const { return adopted_; }

 private:
  std::array<int, kSlots> values_{};
  int adopted_ = 0;
};

TEST_F(MirrorLendingToAMember, WhateverReplicasDoNothingIsLostAndTheyAreEqual) {
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  start_lending();
  ASSERT_TRUE(set().begin_lending({block_after(kData.start, 1), kData.count - 1}, kMember, nullptr).ok());
  std::atomic<bool> stop{false};
  std::thread member([&] {
    for (std::mt19937_64 random(seed); !stop && !HasFatalFailure();) step(random);
  });
  std::mt19937_64 random(seed + 1);
  for (int i = 0; i < 12; ++i) disturb(random);
  stop = true;
  member.join();
  EXPECT_GT(adopted(), 0);
  ASSERT_TRUE(comes_true([&] { return set().readable(0).size() == 2; }));
  ASSERT_TRUE(set().commit().ok());
  crash();
  check();
}

}  // namespace
}  // namespace brickfs::testing
