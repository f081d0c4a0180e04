// SPDX-License-Identifier: Apache-2.0
// A coordinator that dies: what its members have open, locked and been answered goes on with the next one.
#include <fmt/core.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <chrono>
#include <set>
#include <string>
#include <thread>

#include "tests/support/eventually.h"
#include "tests/support/shared_volume.h"

namespace brickfs::shared {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using testing::eventually;

// What was done and not answered is not done again: whatever the instant, over several coordinators.
TEST_F(SharedVolume, ACoordinatorThatDiesIsFollowedByAnother) {
  share();
  const auto a = join();
  const auto b = join();
  ASSERT_TRUE(a && b);
  const Ino log = make_file(*a, "log");
  ASSERT_TRUE(b->lookup(kRootIno, "log", {}).ok());
  std::atomic<bool> stop{false};
  std::atomic<int> lines{0}, files{0};
  const auto work = [&](MemberFiles& member, char name) {
    for (int i = 0; !stop; ++i) {
      const std::string text = fmt::format("{}{:06}\n", name, i);
      ASSERT_TRUE(write_text(member, log, 0, text, true).ok());
      ++lines;
      const std::string file = fmt::format("{}{}", name, i);
      const auto made = member.create(kRootIno, file, S_IFREG | 0644, root_caller(), {});
      ASSERT_TRUE(made.ok()) << made.code();
      const auto moved = member.rename(kRootIno, file, kRootIno, file + "m", Rename::kNoReplace, nullptr, {});
      ASSERT_TRUE(moved.ok()) << moved.code();
      if (i % 2 == 0) {
        ASSERT_TRUE(member.unlink(kRootIno, file + "m", {}).ok());
      } else {
        ++files;
      }
      member.forget(made->ino, 1);
    }
  };
  std::thread of_a([&] { work(*a, 'a'); });
  std::thread of_b([&] { work(*b, 'b'); });
  for (int i = 0; i < 4; ++i) {
    const int before = lines;
    EXPECT_TRUE(eventually([&] { return lines > before + 20; }));
    take_over();
  }
  const int before = lines;
  EXPECT_TRUE(eventually([&] { return lines > before + 20; }));
  stop = true;
  of_a.join();
  of_b.join();
  const std::string text = read_text(*a, log, 0, 10'000'000);
  ASSERT_EQ(text.size(), static_cast<size_t>(lines) * 8);
  std::set<std::string> seen;
  for (size_t at = 0; at < text.size(); at += 8) EXPECT_TRUE(seen.insert(text.substr(at, 8)).second) << at;
  int names = 0;
  const auto count = [&](const DirectoryEntry&) { return ++names, true; };
  ASSERT_TRUE(b->read_directory(kRootIno, 0, false, count, Touch::kNothing, {}).ok());
  EXPECT_EQ(names, files + 3);  // . .. log
}

TEST_F(SharedVolume, OpenFilesAndLocksAreClaimedOfTheNextCoordinator) {
  share();
  const auto a = join();
  const auto b = join();
  ASSERT_TRUE(a && b);
  const Ino open = make_file(*a, "open");
  ASSERT_TRUE(write_text(*a, open, 0, "still here").ok());
  const Ino locked = make_file(*a, "locked");
  const Ino closed = make_file(*b, "closed");
  ASSERT_TRUE(b->lookup(kRootIno, "locked", {}).ok());
  const LockRequest of_a{locked, {0, 5, LockKind::kRange}, 9, {10, 19, LockMode::kExclusive, 77}};
  const LockRequest of_b{locked, {0, 5, LockKind::kRange}, 9, {15, 15, LockMode::kExclusive, 78}};
  ASSERT_TRUE(a->set_lock(of_a, false, {}).ok());
  ASSERT_TRUE(b->unlink(kRootIno, "open", {}).ok());
  ASSERT_TRUE(a->unlink(kRootIno, "closed", {}).ok());
  b->forget(closed, 1);
  take_over();
  EXPECT_EQ(read_text(*a, open, 0, 100), "still here");
  EXPECT_EQ(b->set_lock(of_b, false, {}).code(), EAGAIN);
  EXPECT_EQ(a->get_attributes(closed, {}).code(), ESTALE);
  LockRequest unlocked = of_a;
  unlocked.lock.mode = LockMode::kUnlocked;
  ASSERT_TRUE(a->set_lock(unlocked, false, {}).ok());
  take_over();
  EXPECT_TRUE(b->set_lock(of_b, false, {}).ok());
  a->forget(open, 1);
  EXPECT_TRUE(eventually([&] { return volume_->get_attributes(open).code() == ESTALE; }));
}

// It is let go of by nobody: whoever has it claims it from the next coordinator.
TEST_F(SharedVolume, ALockIsItsOwnersWhileOneCoordinatorFollowsAnother) {
  share();
  const auto a = join();
  const auto b = join();
  ASSERT_TRUE(a && b);
  const Ino ino = make_file(*a, "file");
  LockRequest lock{ino, {0, 1, LockKind::kRange}, 1, {0, 9, LockMode::kExclusive, 42}};
  ASSERT_TRUE(b->lookup(kRootIno, "file", {}).ok());
  ASSERT_TRUE(a->set_lock(lock, false, {}).ok());
  Status got = Error(EINVAL);
  std::atomic<bool> has{false};
  std::thread waiter([&, of_b = lock] {
    got = b->set_lock(of_b, true, {});
    has = true;
  });
  std::this_thread::sleep_for(milliseconds(50));
  take_over();
  EXPECT_TRUE(a->get_attributes(ino, {}).ok());
  std::this_thread::sleep_for(milliseconds(50));
  EXPECT_FALSE(has);
  lock.lock.mode = LockMode::kUnlocked;
  EXPECT_TRUE(a->set_lock(lock, false, {}).ok());
  waiter.join();
  EXPECT_TRUE(got.ok());
}

// Nothing is done for anybody before all have come; whoever does not is lost, and what he had open and locked.
TEST_F(SharedVolume, WhoDoesNotComeToTheNextCoordinatorIsExpelled) {
  share();
  const auto a = join();
  CoordinatorLink* link = nullptr;
  auto b = join(&link);
  ASSERT_TRUE(a && b);
  const Ino open = make_file(*b, "open");
  ASSERT_TRUE(a->unlink(kRootIno, "open", {}).ok());
  link->interrupt();
  b.reset();
  grace_ = milliseconds(2'500);
  const auto begun = steady_clock::now();
  take_over();
  EXPECT_TRUE(a->get_attributes(kRootIno, {}).ok());
  EXPECT_GE(steady_clock::now() - begun, milliseconds(2'500));
  EXPECT_EQ(a->get_attributes(open, {}).code(), ESTALE);
  EXPECT_EQ(coordinator_->members().size(), 1u);
  EXPECT_EQ(volume_->members().size(), 1u);
}

TEST_F(SharedVolume, ACoordinatorThatHasGoneIsALostVolume) {
  share();
  const auto member = join();
  ASSERT_TRUE(member);
  make_file(*member, "file");
  coordinator_->stop();
  holds_ = false;
  EXPECT_TRUE(eventually([&] { return member->get_attributes(kRootIno, {}).code() == ESTALE; }));
  EXPECT_EQ(member->volume().final_error().code(), ESTALE);
}

TEST_F(SharedVolume, WhoWaitsForACoordinatorThatIsAwayCanBeInterrupted) {
  share();
  const auto member = join();
  ASSERT_TRUE(member);
  coordinator_->stop();
  Interruption interruption;
  std::thread later([&] {
    std::this_thread::sleep_for(milliseconds(100));
    interruption.raise();
  });
  EXPECT_EQ(member->get_attributes(kRootIno, {.interruption = &interruption}).code(), EINTR);
  later.join();
  EXPECT_TRUE(eventually([&] { return member->volume().is_away(); }));
}

// Whoever was answered lives on, when the coordinator does not.
TEST(AwaitWritten, WhatWasWaitedForSurvivesACrash) {
  MountedVolume volume;
  for (int round = 0; round < 40; ++round) {
    const std::string name = "file" + std::to_string(round);
    make_file(*volume, name);
    ASSERT_TRUE(volume->await_written().ok());
    volume.crash_and_mount();
    EXPECT_TRUE(volume->lookup(kRootIno, name).ok()) << name;
  }
}

}  // namespace
}  // namespace brickfs::shared
