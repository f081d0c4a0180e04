// SPDX-License-Identifier: Apache-2.0
// The contract of transport/brick/brick.h, for every implementation of it: followers that write.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "tests/support/brick_contract.h"

namespace brickfs::testing {
namespace {

class BrickWriters : public BrickContract {
 protected:
  static constexpr ClientId kMember{7};

  void SetUp() override {
    start(4, 4);
    holder_ = open(1, &held_);
    ASSERT_TRUE(holder_->alloc(blocks(0, 2)).ok());
  }
  // Of the holder, as it is now.
  OpenRequest writer(ClientId client = kMember) const {
    OpenRequest asked = request(static_cast<uint64_t>(client), OpenMode::kFollow);
    asked.bound = asked.writes = true;
    asked.resume = held_.epoch;
    return asked;
  }
  Brick& holder() { return *holder_; }
  Epoch epoch() const { return held_.epoch; }
  void lose_holder() { holder_.reset(); }

 private:
  std::unique_ptr<Brick> holder_;
  Session held_;
};
BRICK_CONTRACT_FOR_EVERY_KIND(BrickWriters);

TEST_P(BrickWriters, WhoIsAdmittedWritesAndDoesNothingElse) {
  ASSERT_TRUE(holder().admit(kMember).ok());
  auto member = open(writer());
  const Handle written = map_one(*member, 0);
  const Handle seen = map_one(holder(), 0, Access::kRead);
  for (unsigned seed = 1; seed < 4; ++seed) {
    ASSERT_TRUE(write(*member, written, 4096 * seed, pattern(4096, seed)).ok());
    ASSERT_TRUE(member->make_visible().ok());
    EXPECT_EQ(read(holder(), seen, 4096 * seed, 4096), pattern(4096, seed));
  }
  EXPECT_EQ(member->alloc(blocks(3)).code(), EACCES);
  EXPECT_EQ(member->free(blocks(0)).code(), EACCES);
  EXPECT_EQ(member->commit({}).code(), EACCES);
  EXPECT_EQ(member->admit(ClientId{8}).code(), EACCES);
  EXPECT_EQ(member->expel(kMember).code(), EACCES);
  EXPECT_TRUE(member->stat().ok());
}

TEST_P(BrickWriters, WhoIsNotAdmittedIsNotLetIn) {
  EXPECT_EQ(connect()->open(writer(), nullptr).code(), ESTALE);
  ASSERT_TRUE(holder().admit(kMember).ok());
  EXPECT_EQ(connect()->open(writer(ClientId{8}), nullptr).code(), ESTALE);
  OpenRequest reads = writer();
  reads.writes = false;
  EXPECT_EQ(open(reads)->map(blocks(0), Access::kReadWrite).code(), EACCES) << "it has not asked for it";
  OpenRequest of_former = writer();
  of_former.resume = Epoch{static_cast<uint64_t>(epoch()) + 1};
  EXPECT_EQ(connect()->open(of_former, nullptr).code(), ESTALE);
  OpenRequest unbound = writer();
  unbound.bound = false;
  EXPECT_EQ(connect()->open(unbound, nullptr).code(), EINVAL);
}

TEST_P(BrickWriters, NothingOfWhoIsExpelledLandsAnyMore) {
  for (const ClientId client : {kMember, ClientId{8}}) ASSERT_TRUE(holder().admit(client).ok());
  auto member = open(writer());
  auto other = open(writer(ClientId{8}));
  const Handle written = map_one(*member, 0);
  const Handle stays = map_one(*other, 1);
  ASSERT_TRUE(write(*member, written, 0, pattern(4096, 1)).ok());
  ASSERT_TRUE(holder().expel(kMember).ok());
  const Handle own = map_one(holder(), 0);
  ASSERT_TRUE(write(holder(), own, 0, pattern(4096, 2)).ok());
  EXPECT_FALSE(write(*member, written, 0, pattern(4096, 3)).ok());
  EXPECT_EQ(read(holder(), own, 0, 4096), pattern(4096, 2));
  EXPECT_TRUE(is_lost_session(member->stat().code()));
  EXPECT_EQ(connect()->open(writer(), nullptr).code(), ESTALE);
  EXPECT_TRUE(write(*other, stays, 0, pattern(4096, 4)).ok());
  ASSERT_TRUE(holder().admit(kMember).ok());
  EXPECT_TRUE(connect()->open(writer(), nullptr).ok());
}

// Whatever is on its way when it is expelled has landed by then, or never will.
TEST_P(BrickWriters, WhatIsUnderWayEndsBeforeItIsExpelled) {
  for (int round = 0; round < 5; ++round) {
    ASSERT_TRUE(holder().admit(kMember).ok());
    auto member = open(writer());
    const Handle written = map_one(*member, 0);
    std::atomic<bool> writes{false};
    std::thread thread([&] {
      for (unsigned seed = 1; write(*member, written, 0, pattern(256 * 1024, seed)).ok(); ++seed) writes = true;
    });
    EXPECT_TRUE(eventually([&] { return writes.load(); }));
    EXPECT_TRUE(holder().expel(kMember).ok());
    const Handle own = map_one(holder(), 0);
    EXPECT_TRUE(write(holder(), own, 0, pattern(256 * 1024, 1'000'000)).ok());
    thread.join();
    EXPECT_EQ(read(holder(), own, 0, 256 * 1024), pattern(256 * 1024, 1'000'000));
  }
}

TEST_P(BrickWriters, ToExpelAStrangerIsNothing) {
  ASSERT_TRUE(holder().admit(kMember).ok());
  auto member = open(writer());
  EXPECT_TRUE(holder().expel(ClientId{99}).ok());
  EXPECT_TRUE(member->stat().ok());
  auto observer = open(request(5, OpenMode::kObserve));
  EXPECT_EQ(observer->expel(kMember).code(), EACCES);
  EXPECT_EQ(observer->admit(kMember).code(), EACCES);
  EXPECT_EQ(holder().expel(ClientId{}).code(), EINVAL);
  EXPECT_EQ(holder().admit(ClientId{}).code(), EINVAL);
  EXPECT_TRUE(write(*member, map_one(*member, 0), 0, pattern(64, 1)).ok());
}

TEST_P(BrickWriters, TheNextLeaseEndsThemAndLetsNobodyIn) {
  ASSERT_TRUE(holder().admit(kMember).ok());
  auto member = open(writer());
  const Handle written = map_one(*member, 0);
  ASSERT_TRUE(write(*member, written, 0, pattern(4096, 1)).ok());
  OpenRequest thief = request(2);
  thief.steal = true;
  Session taken;
  auto taker = open(thief, &taken);
  if (durable()) {
    EXPECT_EQ(taken.suspect_blocks, 1u) << "the member could write there";
  }
  const Handle own = map_one(*taker, 0);
  ASSERT_TRUE(write(*taker, own, 0, pattern(4096, 2)).ok());
  EXPECT_FALSE(write(*member, written, 0, pattern(4096, 3)).ok());
  EXPECT_EQ(read(*taker, own, 0, 4096), pattern(4096, 2));
  OpenRequest again = writer();
  again.resume = taken.epoch;
  EXPECT_EQ(connect()->open(again, nullptr).code(), ESTALE);
}

TEST_P(BrickWriters, TheHolderWhoComesBackFindsThemAdmitted) {
  ASSERT_TRUE(holder().admit(kMember).ok());
  auto member = open(writer());
  const Handle written = map_one(*member, 0);
  OpenRequest again = request(1);
  again.resume = epoch();
  lose_holder();
  auto back = open_after_loss(again);
  EXPECT_TRUE(write(*member, written, 0, pattern(4096, 1)).ok());
  EXPECT_TRUE(connect()->open(writer(), nullptr).ok());
  ASSERT_TRUE(back->close().ok());
  EXPECT_EQ(connect()->open(writer(), nullptr).code(), ESTALE) << "he has given it up";
}

// What it wrote is there after the brick's restart if the holder has committed it.
TEST_P(BrickWriters, TheHolderCommitsWhatTheyWrote) {
  if (!durable()) return;
  ASSERT_TRUE(holder().admit(kMember).ok());
  auto member = open(writer());
  ASSERT_TRUE(write(*member, map_one(*member, 1), 8192, pattern(4096, 1)).ok());
  ASSERT_TRUE(member->make_visible().ok());
  const CommitRange range{raw(block_number(1)) + 8192, 4096, false};
  ASSERT_TRUE(holder().commit(std::span(&range, 1)).ok());
  ASSERT_TRUE(member->close().ok());
  member.reset();
  lose_holder();
  brick().restart();
  OpenRequest again = request(1);
  again.resume = epoch();
  auto back = open(again);
  EXPECT_EQ(read(*back, map_one(*back, 1), 8192, 4096), pattern(4096, 1));
  EXPECT_EQ(connect()->open(writer(), nullptr).code(), ESTALE) << "a brick that was started again lets nobody in";
}

// Its boot is the same, so who was expelled would go on there, if the brick did not ask for him anew.
TEST_P(BrickWriters, ABrickThatKeepsItsMemoryForgetsWhomItLetIn) {
  if (!GetParam().keeps) return;
  ASSERT_TRUE(holder().admit(kMember).ok());
  EXPECT_TRUE(connect()->open(writer(), nullptr).ok());
  lose_holder();
  brick().restart();
  OpenRequest again = request(1);
  again.resume = epoch();
  Session resumed;
  auto back = open(again, &resumed);
  EXPECT_EQ(resumed.epoch, epoch());
  EXPECT_EQ(connect()->open(writer(), nullptr).code(), ESTALE);
  ASSERT_TRUE(back->admit(kMember).ok());
  EXPECT_TRUE(connect()->open(writer(), nullptr).ok());
}

TEST_P(BrickWriters, WhatTheHolderFreesIsTakenFromThem) {
  ASSERT_TRUE(holder().admit(kMember).ok());
  auto member = open(writer());
  const Handle written = map_one(*member, 0);
  ASSERT_TRUE(holder().free(blocks(0)).ok());
  ASSERT_TRUE(holder().alloc(blocks(0)).ok());
  EXPECT_FALSE(write(*member, written, 0, pattern(4096, 1)).ok());
  EXPECT_EQ(read(holder(), map_one(holder(), 0, Access::kRead), 0, 4096), std::vector<std::byte>(4096));
}

}  // namespace
}  // namespace brickfs::testing
