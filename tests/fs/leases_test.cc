// SPDX-License-Identifier: Apache-2.0
// Who relies on what (Leases), and what a member keeps of it (Held): each by itself, and both together with a
// coordinator and members over TCP on this host.
#include "fs/shared/leases.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "fs/shared/held.h"
#include "fs/shared/name_locks.h"

namespace brickfs::shared {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

constexpr Ino kFile{42};

Leases::Scope scope_of(Ino ino, Lease kinds, bool asker_drops = true) {
  Leases::Scope scope;
  scope.add(ino, kinds, asker_drops);
  return scope;
}

// What a member does: drops what it is told to, and says so.
std::vector<Recall> take_recalls(Leases& leases, uint64_t machine) {
  Interruption never;
  return leases.await(machine, {}, steady_clock::now() + seconds(10), never);
}

bool is_asked_nothing(Leases& leases, uint64_t machine) {
  Interruption never;
  return leases.await(machine, {}, steady_clock::now(), never).empty();
}

class WhoReliesOnWhat : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const uint64_t machine : {1, 2}) leases_.join(machine);
  }
  Leases leases_;
};

TEST_F(WhoReliesOnWhat, AChangeWaitsUntilTheOthersHaveDroppedIt) {
  EXPECT_EQ(leases_.grant(1, kFile, Lease::kAttributes), Lease::kAttributes);
  EXPECT_EQ(leases_.grant(2, kFile, Lease::kAttributes), Lease::kAttributes);
  std::atomic<bool> begun{false};
  std::thread changer([&] {
    const auto change = leases_.begin(scope_of(kFile, Lease::kAttributes), 1, nullptr);
    begun = true;
    EXPECT_TRUE(change.ok());
  });
  const auto recalls = take_recalls(leases_, 2);
  ASSERT_EQ(recalls.size(), 1u);
  EXPECT_EQ(recalls[0].ino, kFile);
  EXPECT_EQ(recalls[0].kinds, Lease::kAttributes);
  EXPECT_FALSE(begun);
  EXPECT_TRUE(is_asked_nothing(leases_, 1)) << "who changes it has dropped it by himself";
  EXPECT_EQ(leases_.grant(2, kFile, Lease::kAttributes), Lease::kNone) << "not while it is about to be changed";
  EXPECT_EQ(leases_.grant(2, kFile, Lease::kData), Lease::kData) << "which is not";
  leases_.tell_done(2, std::array{recalls[0].number});
  changer.join();
  EXPECT_EQ(leases_.grant(2, kFile, Lease::kAttributes), Lease::kAttributes) << "it is made";
}

TEST_F(WhoReliesOnWhat, NobodyIsAskedForWhatNobodyHolds) {
  EXPECT_TRUE(leases_.begin(scope_of(kFile, Lease::kData), 1, nullptr).ok());
  EXPECT_TRUE(leases_.try_begin(scope_of(kFile, Lease::kData)));
  (void)leases_.grant(1, kFile, Lease::kData);
  EXPECT_TRUE(leases_.begin(scope_of(kFile, Lease::kAttributes), 2, nullptr).ok());
  EXPECT_FALSE(leases_.try_begin(scope_of(kFile, Lease::kData)));
  EXPECT_TRUE(is_asked_nothing(leases_, 1));
}

TEST_F(WhoReliesOnWhat, TheAskerIsAskedForWhatHeDoesNotKnowOf) {
  (void)leases_.grant(1, kFile, Lease::kAttributes);
  std::thread changer([&] { EXPECT_TRUE(leases_.begin(scope_of(kFile, Lease::kAttributes, false), 1, nullptr).ok()); });
  const auto recalls = take_recalls(leases_, 1);
  ASSERT_EQ(recalls.size(), 1u);
  leases_.tell_done(1, std::array{recalls[0].number});
  changer.join();
}

// The recall goes on behind who does not wait for it any more.
TEST_F(WhoReliesOnWhat, WhoIsInterruptedMakesNoChange) {
  (void)leases_.grant(2, kFile, Lease::kData);
  Interruption interruption;
  interruption.raise();
  EXPECT_EQ(leases_.begin(scope_of(kFile, Lease::kData), 1, &interruption).code(), EINTR);
  EXPECT_EQ(leases_.grant(1, kFile, Lease::kData), Lease::kNone) << "it is being recalled still";
  const auto recalls = take_recalls(leases_, 2);
  ASSERT_EQ(recalls.size(), 1u);
  leases_.tell_done(2, std::array{recalls[0].number});
  EXPECT_EQ(leases_.grant(1, kFile, Lease::kData), Lease::kData);
  EXPECT_EQ(leases_.counts().held, 1u);
}

TEST_F(WhoReliesOnWhat, WhoGoesHoldsNobodyUp) {
  (void)leases_.grant(2, kFile, Lease::kData);
  std::thread changer([&] { EXPECT_TRUE(leases_.begin(scope_of(kFile, Lease::kData), 1, nullptr).ok()); });
  EXPECT_EQ(take_recalls(leases_, 2).size(), 1u);
  leases_.leave(2);
  changer.join();
  EXPECT_EQ(leases_.counts().held, 0u);
}

// He may rely on it until the lease that was renewed last is over; told of the end before, he says when he has dropped.
TEST_F(WhoReliesOnWhat, WhoDoesNotAnswerIsWaitedOut) {
  EXPECT_EQ(leases_.renew(2, 1), 1u);
  (void)leases_.grant(2, kFile, Lease::kData);
  std::atomic<bool> begun{false};
  std::thread changer([&] {
    EXPECT_TRUE(leases_.begin(scope_of(kFile, Lease::kData), 1, nullptr).ok());
    begun = true;
  });
  EXPECT_EQ(take_recalls(leases_, 2).size(), 1u);
  const auto now = steady_clock::now();
  leases_.look(now + milliseconds(2'100));
  EXPECT_EQ(leases_.renew(2, 1), 2u) << "another generation is in force";
  EXPECT_EQ(leases_.grant(2, Ino{43}, Lease::kData), Lease::kNone);
  std::this_thread::sleep_for(milliseconds(50));
  EXPECT_FALSE(begun);
  leases_.look(now + milliseconds(3'500));
  changer.join();
  EXPECT_EQ(leases_.renew(2, 2), 2u);
  EXPECT_EQ(leases_.grant(2, kFile, Lease::kData), Lease::kData);
  EXPECT_EQ(leases_.counts().lapsed, 1u);
}

TEST_F(WhoReliesOnWhat, WhoHasBegunAnewIsNotWaitedFor) {
  (void)leases_.grant(2, kFile, Lease::kData);
  std::thread changer([&] { EXPECT_TRUE(leases_.begin(scope_of(kFile, Lease::kData), 1, nullptr).ok()); });
  EXPECT_EQ(take_recalls(leases_, 2).size(), 1u);
  leases_.look(steady_clock::now() + milliseconds(2'100));
  EXPECT_EQ(leases_.renew(2, 2), 2u);
  changer.join();
}

TEST_F(WhoReliesOnWhat, WhatWasLetGoOfIsRecalledInTime) {
  (void)leases_.grant(2, kFile, Lease::kAttributes);
  leases_.release(2, kFile);
  const auto recalls = take_recalls(leases_, 2);
  ASSERT_EQ(recalls.size(), 1u);
  leases_.tell_done(2, std::array{recalls[0].number});
  EXPECT_EQ(leases_.counts().held, 0u);
}

// Before the change, and behind it; whoever made it is told when both have been done.
TEST_F(WhoReliesOnWhat, WhoseKernelReadsByPagesIsToldOfEachChangeTwice) {
  leases_.stand(1, kFile);
  for (int round = 0; round < 2; ++round) {
    std::atomic<int> step{0};
    std::thread changer([&] {
      {
        const auto change = leases_.begin(scope_of(kFile, Lease::kData | Lease::kAttributes), 2, nullptr);
        EXPECT_TRUE(change.ok());
        step = 1;
      }
      step = 2;
    });
    for (const int made : {0, 1}) {
      const auto recalls = take_recalls(leases_, 1);
      ASSERT_EQ(recalls.size(), 1u);
      EXPECT_EQ(recalls[0].ino, kFile);
      EXPECT_EQ(recalls[0].kinds, Lease::kData);
      EXPECT_EQ(step, made);
      leases_.tell_done(1, std::array{recalls[0].number});
    }
    changer.join();
  }
  EXPECT_FALSE(leases_.try_begin(scope_of(kFile, Lease::kData))) << "it is to be told";
  EXPECT_TRUE(leases_.begin(scope_of(kFile, Lease::kAttributes), 2, nullptr).ok()) << "those its kernel asks for";
  EXPECT_TRUE(leases_.begin(scope_of(kFile, Lease::kData), 1, nullptr).ok()) << "its own its kernel knows of";
  EXPECT_TRUE(is_asked_nothing(leases_, 1));
}

TEST_F(WhoReliesOnWhat, WhoseKernelReadsByPagesIsToldUntilItHasLetGo) {
  leases_.stand(1, kFile);
  EXPECT_EQ(leases_.grant(2, kFile, Lease::kData), Lease::kData);
  leases_.release(1, kFile);
  EXPECT_TRUE(leases_.begin(scope_of(kFile, Lease::kData), 2, nullptr).ok());
  leases_.stand(1, kFile);
  leases_.leave(1);
  EXPECT_TRUE(leases_.begin(scope_of(kFile, Lease::kData), 2, nullptr).ok());
  leases_.leave(2);
  EXPECT_EQ(leases_.counts().held, 0u);
}

TEST(WithoutMachines, WhoJoinsWaitsForChangesThatLookedAtNothing) {
  Leases leases;
  auto change = leases.begin(scope_of(kFile, Lease::kData), 0, nullptr);
  ASSERT_TRUE(change.ok());
  EXPECT_TRUE(leases.begin_unseen());
  std::atomic<bool> joined{false};
  std::thread joiner([&] {
    leases.join(1);
    joined = true;
  });
  std::this_thread::sleep_for(milliseconds(50));
  EXPECT_FALSE(joined);
  EXPECT_FALSE(leases.begin_unseen()) << "from now on all are looked at";
  { const auto ended = *std::move(change); }
  joiner.join();
  EXPECT_EQ(leases.grant(1, kFile, Lease::kData), Lease::kData);
}

TEST_F(WhoReliesOnWhat, NothingIsChangedWhileItIsHeldBack) {
  leases_.hold_back(true);
  EXPECT_FALSE(leases_.try_begin(scope_of(kFile, Lease::kData)));
  std::atomic<bool> begun{false};
  std::thread changer([&] {
    EXPECT_TRUE(leases_.begin(scope_of(kFile, Lease::kData), 0, nullptr).ok());
    begun = true;
  });
  std::this_thread::sleep_for(milliseconds(50));
  EXPECT_FALSE(begun);
  leases_.hold_back(false);
  changer.join();
}

TEST_F(WhoReliesOnWhat, NothingIsRenewedForWhoOwesARecall) {
  EXPECT_EQ(leases_.renew(2, 1), 1u);
  (void)leases_.grant(2, kFile, Lease::kData);
  std::thread changer([&] { EXPECT_TRUE(leases_.begin(scope_of(kFile, Lease::kData), 1, nullptr).ok()); });
  const auto recalls = take_recalls(leases_, 2);
  std::this_thread::sleep_for(milliseconds(600));
  EXPECT_EQ(leases_.renew(2, 1), 0u);
  leases_.tell_done(2, std::array{recalls.at(0).number});
  EXPECT_EQ(leases_.renew(2, 1), 1u);
  changer.join();
}

TEST(LocksOfNames, WhoHasOneAloneIsAloneAndComesBeforeThoseBehindHim) {
  NameLocks locks;
  auto shared = locks.lock_shared(kFile, nullptr);
  ASSERT_TRUE(shared.ok());
  EXPECT_TRUE(locks.lock_shared(kFile, nullptr).ok());
  EXPECT_TRUE(locks.lock_alone(Ino{7}, Ino{7}, nullptr).ok());
  EXPECT_TRUE(locks.lock_alone(Ino{8}, Ino{7}, nullptr).ok());
  Interruption interruption;
  interruption.raise();
  EXPECT_EQ(locks.lock_alone(kFile, &interruption).code(), EINTR);
  std::atomic<bool> alone{false};
  std::atomic<bool> later{false};
  std::thread one([&] {
    const auto lock = locks.lock_alone(kFile, nullptr);
    alone = true;
    std::this_thread::sleep_for(milliseconds(50));
    EXPECT_FALSE(later);
  });
  std::this_thread::sleep_for(milliseconds(50));
  std::thread other([&] {
    const auto lock = locks.lock_shared(kFile, nullptr);
    later = true;
    EXPECT_TRUE(alone) << "who waited longer came first";
  });
  std::this_thread::sleep_for(milliseconds(50));
  EXPECT_FALSE(alone);
  { const auto ended = *std::move(shared); }
  one.join();
  other.join();
}

// --- what a member keeps

LeasedAttributes leased(Ino ino, uint64_t size = 1) {
  LeasedAttributes inode;
  inode.attributes.ino = ino;
  inode.attributes.size_bytes = size;
  inode.lease = Lease::kAttributes;
  return inode;
}

class WhatAMemberKeeps : public ::testing::Test {
 protected:
  void SetUp() override { held_.renew(BootClock::now(), 1); }
  Held held_;
};

TEST_F(WhatAMemberKeeps, OnlyWhatIsLeased) {
  const Held::Asking asking(held_);
  LeasedAttributes unleased = leased(kFile);
  unleased.lease = Lease::kNone;
  held_.keep(asking, unleased);
  EXPECT_FALSE(held_.attributes(kFile));
  held_.keep(asking, leased(kFile));
  EXPECT_TRUE(held_.attributes(kFile));
}

TEST_F(WhatAMemberKeeps, NotLongerThanItsLeasesAreRenewed) {
  held_.keep(Held::Asking(held_), leased(kFile));
  Held late;
  late.keep(Held::Asking(late), leased(kFile));
  EXPECT_FALSE(late.attributes(kFile)) << "never renewed";
  late.renew(BootClock::now() - kCacheLease, 1);
  EXPECT_FALSE(late.attributes(kFile)) << "when it was sent is what counts";
  late.renew(BootClock::now(), 1);
  EXPECT_TRUE(late.attributes(kFile));
  late.renew(BootClock::now(), 2);
  EXPECT_FALSE(late.attributes(kFile)) << "of another generation";
  late.renew(BootClock::now(), 2);
  EXPECT_FALSE(late.attributes(kFile));
}

TEST_F(WhatAMemberKeeps, NoRecallOvertakesItsGrant) {
  const Held::Asking asking(held_);
  held_.recall(kFile, Lease::kAttributes);
  held_.keep(asking, leased(kFile));
  EXPECT_FALSE(held_.attributes(kFile)) << "it was asked for before the recall";
  held_.keep(Held::Asking(held_), leased(kFile));
  EXPECT_TRUE(held_.attributes(kFile));
  held_.recall(kFile, Lease::kAttributes);
  EXPECT_FALSE(held_.attributes(kFile));
}

TEST_F(WhatAMemberKeeps, NothingOfBeforeAnOwnChangeNorDuringIt) {
  const Held::Asking before(held_);
  {
    Held::Change change(held_);
    change.of(kFile);
    held_.keep(Held::Asking(held_), leased(kFile));
    EXPECT_FALSE(held_.attributes(kFile));
  }
  held_.keep(before, leased(kFile));
  EXPECT_FALSE(held_.attributes(kFile));
  held_.keep(Held::Asking(held_), leased(kFile));
  EXPECT_TRUE(held_.attributes(kFile));
}

TEST_F(WhatAMemberKeeps, WhatAnOwnChangeHasMadeUnlessAnotherIsUnderWay) {
  {
    Held::Change change(held_);
    change.of(kFile);
    const Held::Asking asking(held_);
    change.now_is(asking, leased(kFile, 7));
  }
  ASSERT_TRUE(held_.attributes(kFile));
  EXPECT_EQ(held_.attributes(kFile)->size_bytes, 7u);
  Held::Change first(held_);
  first.of(kFile);
  const Held::Asking asking(held_);
  {
    Held::Change second(held_);
    second.of(kFile);
    first.now_is(asking, leased(kFile, 8));
    EXPECT_FALSE(held_.attributes(kFile));
  }
  first.now_is(asking, leased(kFile, 9));
  EXPECT_FALSE(held_.attributes(kFile)) << "the second one may have been made behind this";
}

TEST_F(WhatAMemberKeeps, OtherNamesThroughAnOwnChangeOfOne) {
  const Ino directory{7};
  held_.keep_name(Held::Asking(held_), directory, Lease::kNames, "a", kFile);
  held_.keep_name(Held::Asking(held_), directory, Lease::kNames, "b", kNoIno);
  {
    Held::Change change(held_);
    change.of(directory, "b");
    EXPECT_FALSE(held_.named(directory, "b"));
    EXPECT_EQ(held_.named(directory, "a"), kFile);
    const Held::Asking asking(held_);
    change.now_named(asking, directory, "b", Ino{43});
  }
  EXPECT_EQ(held_.named(directory, "b"), Ino{43});
  held_.recall(directory, Lease::kNames);
  EXPECT_FALSE(held_.named(directory, "a"));
  Held::Change change(held_);
  change.of(directory, "c");
  const Held::Asking asking(held_);
  change.now_named(asking, directory, "c", Ino{44});
  EXPECT_FALSE(held_.named(directory, "c")) << "there is no lease on the names any more";
}

TEST_F(WhatAMemberKeeps, AListingThatNothingChangedMeanwhile) {
  const Ino directory{7};
  Entries first;
  first.directory = Lease::kNames;
  first.entries.push_back({"a", kFile, 8, 1, {}});
  Entries second = first;
  second.entries[0] = {"b", Ino{43}, 8, 2, {}};
  second.are_all = true;
  const auto list = [&](auto&& between) {
    held_.keep_entries(Held::Asking(held_), directory, 0, first);
    between();
    held_.keep_entries(Held::Asking(held_), directory, 1, second);
    return held_.listing(directory);
  };
  ASSERT_TRUE(list([] {}));
  EXPECT_EQ(held_.listing(directory)->size(), 2u);
  EXPECT_FALSE(list([&] { held_.recall(directory, Lease::kNames); }));
  EXPECT_FALSE(list([&] {
    Held::Change change(held_);
    change.of(directory, "c");
  }));
}

TEST_F(WhatAMemberKeeps, NoMoreThanItsBound) {
  for (uint64_t i = 0; i < Held::kMostKept + 1'000; ++i) held_.keep(Held::Asking(held_), leased(Ino{i + 1}));
  held_.renew(BootClock::now(), 1);  // that took its time
  EXPECT_TRUE(held_.attributes(Ino{Held::kMostKept + 900}));
  EXPECT_FALSE(held_.attributes(Ino{1})) << "all of before were forgotten";
}

}  // namespace
}  // namespace brickfs::shared
