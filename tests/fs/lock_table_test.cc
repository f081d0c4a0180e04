// SPDX-License-Identifier: Apache-2.0
#include "fs/operations/lock_table.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/mman.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <future>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "transport/base/unique_fd.h"

namespace brickfs {
namespace {

using namespace std::chrono_literals;

constexpr Ino kLocked{7};
constexpr Ino kLockedToo{8};
constexpr LockMode kUnlock = LockMode::kUnlocked;
constexpr LockMode kRead = LockMode::kShared;
constexpr LockMode kWrite = LockMode::kExclusive;

// Of owner N, set by the open file N of the same machine, by process N.
LockRequest lock_bytes(uint64_t owner, uint64_t first, uint64_t last, LockMode mode, uint64_t machine = 0,
                       Ino ino = kLocked) {
  return {.ino = ino,
          .owner = {.machine = machine, .id = owner, .kind = LockKind::kRange},
          .open_file = owner,
          .lock = {.first = first, .last = last, .mode = mode, .pid = static_cast<uint32_t>(owner)}};
}

LockRequest lock_file(uint64_t owner, LockMode mode) {
  LockRequest request = lock_bytes(owner, 0, FileLock::kLastByte, mode);
  request.owner.kind = LockKind::kWhole;
  return request;
}

int try_set(LockTable& table, const LockRequest& request) { return table.set(request, false, nullptr).code(); }

// Waits for a lock on a thread of its own.
class LockWaiter {
 public:
  LockWaiter(LockTable& table, const LockRequest& request)
      : outcome_(std::async(std::launch::async,
                            [&table, request, this] { return table.set(request, true, &interruption_).code(); })) {}
  // In the table.
  static void await(LockTable& table, size_t waiting) {
    for (int i = 0; i < 10'000 && table.waiting() < waiting; ++i) std::this_thread::sleep_for(1ms);
    ASSERT_EQ(table.waiting(), waiting);
  }
  bool waits() { return outcome_.wait_for(20ms) == std::future_status::timeout; }
  int outcome() { return outcome_.get(); }
  void interrupt() { interruption_.raise(); }

 private:
  Interruption interruption_;
  std::future<int> outcome_;
};

TEST(LockTable, RangesAreSplitMergedUpgradedAndDowngraded) {
  LockTable table;
  EXPECT_EQ(try_set(table, lock_bytes(1, 0, 99, kWrite)), 0);
  EXPECT_EQ(try_set(table, lock_bytes(2, 99, 99, kRead)), EAGAIN);
  EXPECT_EQ(try_set(table, lock_bytes(2, 100, 199, kRead)), 0) << "next to it";
  EXPECT_EQ(try_set(table, lock_bytes(1, 40, 59, kUnlock)), 0);
  EXPECT_EQ(table.size(), 3U);
  EXPECT_EQ(try_set(table, lock_bytes(2, 40, 59, kWrite)), 0) << "the hole in it";
  EXPECT_EQ(try_set(table, lock_bytes(2, 39, 59, kWrite)), EAGAIN);
  EXPECT_EQ(try_set(table, lock_bytes(2, 40, 59, kUnlock)), 0);
  EXPECT_EQ(try_set(table, lock_bytes(1, 40, 59, kWrite)), 0);
  EXPECT_EQ(table.size(), 2U) << "one again";
  EXPECT_EQ(try_set(table, lock_bytes(1, 50, 199, kRead)), 0) << "a part of it downgraded, and more";
  EXPECT_EQ(try_set(table, lock_bytes(2, 50, 99, kRead)), 0);
  EXPECT_EQ(try_set(table, lock_bytes(1, 50, 50, kWrite)), EAGAIN) << "upgraded under a reader";
  const auto conflict = table.find_conflict(lock_bytes(2, 0, FileLock::kLastByte, kWrite));
  ASSERT_TRUE(conflict);
  EXPECT_EQ(*conflict, (FileLock{.first = 0, .last = 49, .mode = kWrite, .pid = 1}));
  EXPECT_FALSE(table.find_conflict(lock_bytes(1, 0, 49, kWrite))) << "its own";
  EXPECT_EQ(try_set(table, lock_bytes(1, 9, 8, kRead)), EINVAL);
}

TEST(LockTable, WholeFilesAndRangesDoNotSeeEachOther) {
  LockTable table;
  EXPECT_EQ(try_set(table, lock_bytes(1, 0, FileLock::kLastByte, kWrite)), 0);
  EXPECT_EQ(try_set(table, lock_file(2, kWrite)), 0);
  EXPECT_EQ(try_set(table, lock_file(1, kRead)), EAGAIN);
  EXPECT_EQ(try_set(table, lock_file(2, kRead)), 0);
  EXPECT_EQ(try_set(table, lock_file(1, kRead)), 0);
  // As Linux does: who changes the mode lets go first, and may get nothing for it.
  EXPECT_EQ(try_set(table, lock_file(1, kWrite)), EAGAIN);
  EXPECT_EQ(try_set(table, lock_file(2, kWrite)), 0);
}

TEST(LockTable, AProcessOfAnotherMachineHasNoNumberHere) {
  LockTable table;
  ASSERT_EQ(try_set(table, lock_bytes(5, 0, 9, kWrite, /*machine=*/3)), 0);
  const auto seen_here = table.find_conflict(lock_bytes(5, 0, 9, kRead));
  ASSERT_TRUE(seen_here) << "another owner, though of the same number";
  EXPECT_EQ(seen_here->pid, 0U);
  EXPECT_EQ(table.find_conflict(lock_bytes(6, 0, 9, kRead, 3))->pid, 5U);
}

TEST(LockTable, ALockIsGivenToThoseWhoWaitAsTheyCame) {
  LockTable table;
  ASSERT_EQ(try_set(table, lock_bytes(1, 0, 9, kWrite)), 0);
  LockWaiter first(table, lock_bytes(2, 0, 9, kWrite));
  LockWaiter::await(table, 1);
  LockWaiter second(table, lock_bytes(3, 5, 5, kRead));
  LockWaiter::await(table, 2);
  LockWaiter beside(table, lock_bytes(4, 20, 29, kWrite));
  EXPECT_EQ(beside.outcome(), 0) << "it is free";
  EXPECT_EQ(try_set(table, lock_bytes(1, 0, 4, kUnlock)), 0);
  EXPECT_TRUE(first.waits()) << "for the rest";
  EXPECT_TRUE(second.waits());
  EXPECT_EQ(try_set(table, lock_bytes(1, 5, 9, kUnlock)), 0);
  EXPECT_EQ(first.outcome(), 0);
  EXPECT_TRUE(second.waits());
  table.release_open_file(kLocked, 0, 2);
  EXPECT_EQ(second.outcome(), 0);
  EXPECT_EQ(table.waiting(), 0U);
}

TEST(LockTable, ADowngradeLetsReadersIn) {
  LockTable table;
  ASSERT_EQ(try_set(table, lock_bytes(1, 0, 9, kWrite)), 0);
  LockWaiter reader(table, lock_bytes(2, 3, 3, kRead));
  LockWaiter::await(table, 1);
  ASSERT_EQ(try_set(table, lock_bytes(1, 0, 9, kRead)), 0);
  EXPECT_EQ(reader.outcome(), 0);
}

TEST(LockTable, WhoIsInterruptedHasNothingAndHoldsNobodyUp) {
  LockTable table;
  ASSERT_EQ(try_set(table, lock_bytes(1, 0, 9, kRead)), 0);
  LockWaiter writer(table, lock_bytes(2, 0, 9, kWrite));
  LockWaiter::await(table, 1);
  EXPECT_EQ(try_set(table, lock_bytes(3, 0, 9, kRead)), 0) << "past one that waits";
  writer.interrupt();
  EXPECT_EQ(writer.outcome(), EINTR);
  EXPECT_EQ(table.waiting(), 0U);
  table.release_open_file(kLocked, 0, 1);
  table.release_open_file(kLocked, 0, 3);
  EXPECT_EQ(table.size(), 0U);
}

// Whoever has the lock may be another machine, which has it from another table now.
TEST(LockTable, WhoWaitsIsToldThatTheVolumeIsLost) {
  std::atomic<bool> is_lost{false};
  LockTable table([&is_lost]() -> Status { return is_lost ? Status(Error(ESTALE, "another has it")) : Status(); });
  ASSERT_EQ(try_set(table, lock_bytes(1, 0, 9, kWrite)), 0);
  LockWaiter waiter(table, lock_bytes(2, 0, 9, kWrite));
  LockWaiter::await(table, 1);
  EXPECT_TRUE(waiter.waits());
  is_lost = true;
  EXPECT_EQ(waiter.outcome(), ESTALE);
  EXPECT_EQ(table.waiting(), 0u);
}

TEST(LockTable, WhoWouldWaitForHimselfIsTold) {
  LockTable table;
  // Over two files and three owners.
  ASSERT_EQ(try_set(table, lock_bytes(1, 0, 9, kWrite)), 0);
  ASSERT_EQ(try_set(table, lock_bytes(2, 10, 19, kWrite)), 0);
  ASSERT_EQ(try_set(table, lock_bytes(3, 0, 0, kWrite, 0, kLockedToo)), 0);
  LockWaiter one(table, lock_bytes(1, 10, 10, kWrite));
  LockWaiter::await(table, 1);
  LockWaiter two(table, lock_bytes(2, 0, 0, kRead, 0, kLockedToo));
  LockWaiter::await(table, 2);
  EXPECT_EQ(table.set(lock_bytes(3, 5, 5, kRead), true, nullptr).code(), EDEADLK);
  EXPECT_EQ(try_set(table, lock_bytes(3, 5, 5, kRead)), EAGAIN) << "who does not wait is in no circle";
  table.release_open_file(kLockedToo, 0, 3);
  EXPECT_EQ(two.outcome(), 0);
  table.release_open_file(kLocked, 0, 2);
  EXPECT_EQ(one.outcome(), 0);
}

TEST(LockTable, TwoReadersThatBothWantToWriteAreADeadlock) {
  LockTable table;
  ASSERT_EQ(try_set(table, lock_bytes(1, 0, 9, kRead)), 0);
  ASSERT_EQ(try_set(table, lock_bytes(2, 0, 9, kRead)), 0);
  LockWaiter one(table, lock_bytes(1, 0, 9, kWrite));
  LockWaiter::await(table, 1);
  EXPECT_EQ(table.set(lock_bytes(2, 0, 9, kWrite), true, nullptr).code(), EDEADLK);
  EXPECT_EQ(try_set(table, lock_bytes(2, 0, 9, kUnlock)), 0);
  EXPECT_EQ(one.outcome(), 0);
}

TEST(LockTable, AClosingOwnerLosesItsRangesOfTheFileOnly) {
  LockTable table;
  ASSERT_EQ(try_set(table, lock_bytes(1, 0, 9, kWrite)), 0);
  ASSERT_EQ(try_set(table, lock_bytes(1, 0, 9, kWrite, 0, kLockedToo)), 0);
  ASSERT_EQ(try_set(table, lock_file(1, kWrite)), 0);
  table.release_owner(kLocked, {.machine = 0, .id = 1, .kind = LockKind::kRange}, 77);
  EXPECT_EQ(try_set(table, lock_bytes(2, 0, 9, kWrite)), 0);
  EXPECT_EQ(try_set(table, lock_bytes(2, 0, 9, kWrite, 0, kLockedToo)), EAGAIN);
  EXPECT_EQ(try_set(table, lock_file(2, kWrite)), EAGAIN);
}

// The last close of an open file is told behind the program's close().
TEST(LockTable, WhoDoesNotWaitWaitsAMomentForAFileThatIsBeingClosed) {
  LockTable table;
  ASSERT_EQ(try_set(table, lock_file(1, kWrite)), 0);
  table.release_owner(kLocked, {.machine = 0, .id = 99, .kind = LockKind::kRange}, /*open_file=*/1);
  auto asking = std::async(std::launch::async, [&table] { return try_set(table, lock_file(2, kWrite)); });
  table.release_open_file(kLocked, 0, 1);
  EXPECT_EQ(asking.get(), 0);
  // It was not the last: somebody else has it still.
  table.release_owner(kLocked, {.machine = 0, .id = 99, .kind = LockKind::kRange}, 2);
  const auto begun = std::chrono::steady_clock::now();
  EXPECT_EQ(try_set(table, lock_file(3, kRead)), EAGAIN);
  EXPECT_GE(std::chrono::steady_clock::now() - begun, LockTable::kClosing - 10ms);
}

TEST(LockTable, AMachineThatGoesTakesItsLocksAndWaitersAlong) {
  LockTable table;
  ASSERT_EQ(try_set(table, lock_bytes(1, 0, 9, kWrite, 3)), 0);
  ASSERT_EQ(try_set(table, lock_bytes(1, 0, 9, kWrite, 3, kLockedToo)), 0);
  ASSERT_EQ(try_set(table, lock_bytes(1, 10, 19, kWrite, 4)), 0);
  LockWaiter here(table, lock_bytes(1, 5, 5, kRead));
  LockWaiter::await(table, 1);
  LockWaiter there(table, lock_bytes(2, 15, 15, kRead, 3));
  LockWaiter::await(table, 2);
  table.release_machine(3);
  EXPECT_EQ(here.outcome(), 0);
  EXPECT_EQ(there.outcome(), EINTR);
  EXPECT_EQ(table.size(), 2U);
}

TEST(LockTable, AMachineThatMovesKeepsItsLocksAndItsWaitersAreTold) {
  LockTable table;
  ASSERT_EQ(try_set(table, lock_bytes(1, 0, 9, kWrite)), 0);
  ASSERT_EQ(try_set(table, lock_bytes(2, 10, 19, kWrite, 3)), 0);
  LockWaiter here(table, lock_bytes(4, 15, 15, kRead));
  LockWaiter::await(table, 1);
  LockWaiter there(table, lock_bytes(5, 5, 5, kRead, 3));
  LockWaiter::await(table, 2);
  const auto kept = table.end_waiting(0);
  ASSERT_EQ(kept.size(), 1U);
  EXPECT_EQ(kept[0].owner.id, 1U);
  EXPECT_EQ(here.outcome(), EINTR);
  EXPECT_TRUE(there.waits()) << "the others' go on, and get nothing that the machine has";
  table.release_machine(3);
  EXPECT_EQ(there.outcome(), EINTR);
  EXPECT_EQ(table.size(), 1U);
}

// --- beside the kernel's own

// A file that some have open, each with its own open file, here and in the kernel.
class BesideTheKernel {
 public:
  static constexpr size_t kOwners = 4;

  BesideTheKernel() {
    const UniqueFd file(memfd_create("locks", MFD_CLOEXEC));
    const std::string path = "/proc/self/fd/" + std::to_string(file.get());
    for (UniqueFd& each : open_) each = UniqueFd(open(path.c_str(), O_RDWR | O_CLOEXEC));
    observer_ = UniqueFd(open(path.c_str(), O_RDWR | O_CLOEXEC));
  }

  void set_range(size_t owner, uint64_t first, uint64_t last, LockMode mode) {
    struct flock lock = as_flock(first, last, mode);
    const int theirs = fcntl(open_[owner].get(), F_OFD_SETLK, &lock) == 0 ? 0 : errno;
    ASSERT_EQ(try_set(table_, lock_bytes(owner + 1, first, last, mode)), theirs);
  }
  void set_whole(size_t owner, LockMode mode) {
    const int operation = mode == kUnlock ? LOCK_UN : mode == kRead ? LOCK_SH : LOCK_EX;
    const int theirs = flock(open_[owner].get(), operation | LOCK_NB) == 0 ? 0 : errno;
    ASSERT_EQ(try_set(table_, lock_file(owner + 1, mode)), theirs);
  }
  void reopen(size_t owner) {
    const std::string path = "/proc/self/fd/" + std::to_string(observer_.get());
    open_[owner] = UniqueFd(open(path.c_str(), O_RDWR | O_CLOEXEC));
    table_.release_open_file(kLocked, 0, owner + 1);
  }
  // What a stranger and each owner would find at a byte.
  void compare(uint64_t at) {
    for (const LockMode mode : {kRead, kWrite}) {
      expect_same(observer_.get(), kOwners + 1, at, mode);
      for (size_t i = 0; i < kOwners; ++i) expect_same(open_[i].get(), i + 1, at, mode);
    }
  }

 private:
  static struct flock as_flock(uint64_t first, uint64_t last, LockMode mode) {
    struct flock lock {};
    lock.l_type = mode == kUnlock ? F_UNLCK : mode == kRead ? F_RDLCK : F_WRLCK;
    lock.l_whence = SEEK_SET;
    lock.l_start = static_cast<off_t>(first);
    lock.l_len = last == FileLock::kLastByte ? 0 : static_cast<off_t>(last - first + 1);
    return lock;
  }
  void expect_same(int fd, uint64_t owner, uint64_t at, LockMode mode) {
    struct flock lock = as_flock(at, at, mode);
    ASSERT_EQ(fcntl(fd, F_OFD_GETLK, &lock), 0);
    const auto ours = table_.find_conflict(lock_bytes(owner, at, at, mode));
    ASSERT_EQ(ours.has_value(), lock.l_type != F_UNLCK) << "byte " << at << ", owner " << owner;
    if (!ours) return;
    // Of several readers either may be told.
    ASSERT_EQ(ours->mode == kRead, lock.l_type == F_RDLCK);
    if (ours->mode == kRead) return;
    ASSERT_EQ(static_cast<off_t>(ours->first), lock.l_start);
    ASSERT_EQ(ours->last == FileLock::kLastByte ? 0 : static_cast<off_t>(ours->last - ours->first + 1), lock.l_len);
  }

  LockTable table_;
  std::array<UniqueFd, kOwners> open_;
  UniqueFd observer_;
};

TEST(LockTable, DoesWhatTheKernelDoes) {
  constexpr uint64_t kBytes = 24;
  const auto seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const auto below = [&random](uint64_t bound) { return random() % bound; };
  BesideTheKernel both;
  for (int i = 0; i < 20'000 && !::testing::Test::HasFatalFailure(); ++i) {
    const size_t owner = below(BesideTheKernel::kOwners);
    const auto mode = static_cast<LockMode>(below(3));
    const uint64_t first = below(kBytes);
    const uint64_t last = below(20) == 0 ? FileLock::kLastByte : first + below(kBytes - first);
    const uint64_t what = below(100);
    if (what < 80) {
      both.set_range(owner, first, last, mode);
    } else if (what < 97) {
      both.set_whole(owner, mode);
    } else {
      both.reopen(owner);
    }
    both.compare(below(kBytes + 2));
  }
}

}  // namespace
}  // namespace brickfs
