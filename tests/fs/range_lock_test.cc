// SPDX-License-Identifier: Apache-2.0
#include "fs/base/range_lock.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <future>
#include <optional>
#include <random>
#include <thread>
#include <vector>

namespace brickfs {
namespace {

using Mode = RangeLocks::Mode;
using namespace std::chrono_literals;

constexpr Ino kFile{7};

// Takes a lock on a thread of its own.
class Waiter {
 public:
  Waiter(RangeLocks& locks, uint64_t first, uint64_t end, Mode mode, Ino ino = kFile)
      : granted_(std::async(std::launch::async,
                            [&locks, first, end, mode, ino] { return locks.lock(ino, first, end, mode); })) {}
  bool granted_within(std::chrono::milliseconds time) { return granted_.wait_for(time) == std::future_status::ready; }
  RangeLocks::Hold take() { return granted_.get(); }

 private:
  std::future<RangeLocks::Hold> granted_;
};

// One that cannot have the lock has come to wait for it there: from then on a reader does not get past it.
bool is_waited_for(RangeLocks& locks, uint64_t first, uint64_t end) {
  const auto until = std::chrono::steady_clock::now() + 20s;
  while (locks.try_lock(kFile, first, end, Mode::kShared)) {
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::sleep_for(1ms);
  }
  return true;
}

TEST(RangeLocks, TryingNeitherWaitsNorHoldsOthersUp) {
  RangeLocks locks;
  std::optional<RangeLocks::Hold> writer = locks.lock(kFile, 0, 10, Mode::kExclusive);
  EXPECT_FALSE(locks.try_lock(kFile, 9, 12, Mode::kShared));
  EXPECT_TRUE(locks.try_lock(kFile, 10, 12, Mode::kExclusive)) << "given back at once";
  std::optional<RangeLocks::Hold> reader = locks.try_lock(kFile, 10, 12, Mode::kShared);
  ASSERT_TRUE(reader);
  EXPECT_TRUE(locks.try_lock(kFile, 11, 12, Mode::kShared));
  Waiter behind(locks, 0, 20, Mode::kExclusive);
  EXPECT_TRUE(is_waited_for(locks, 12, 20));
  EXPECT_FALSE(behind.granted_within(20ms));
  writer.reset();
  reader.reset();
  EXPECT_TRUE(behind.granted_within(10s));
}

TEST(RangeLocks, WhoIsInterruptedNoLongerHoldsOthersUp) {
  RangeLocks locks;
  const auto reader = locks.lock(kFile, 0, 10, Mode::kShared);
  Interruption interruption;
  auto writer =
      std::async(std::launch::async, [&] { return locks.lock(kFile, 5, 15, Mode::kExclusive, &interruption).code(); });
  EXPECT_TRUE(is_waited_for(locks, 12, 13));
  EXPECT_EQ(writer.wait_for(50ms), std::future_status::timeout);
  Waiter behind(locks, 9, 20, Mode::kShared);
  EXPECT_FALSE(behind.granted_within(50ms));
  interruption.raise();
  EXPECT_EQ(writer.get(), EINTR);
  EXPECT_TRUE(behind.granted_within(10s));
  EXPECT_TRUE(locks.lock(kFile, 30, 31, Mode::kExclusive, &interruption).ok()) << "nothing to wait for";
}

TEST(RangeLocks, ReadersShareAndWritersExclude) {
  RangeLocks locks;
  std::optional<RangeLocks::Hold> first = locks.lock(kFile, 0, 10, Mode::kShared);
  const auto second = locks.lock(kFile, 5, 15, Mode::kShared);
  const auto apart = locks.lock(kFile, 15, 16, Mode::kExclusive);
  const auto other_file = locks.lock(Ino{8}, 0, UINT64_MAX, Mode::kExclusive);
  Waiter writer(locks, 9, 10, Mode::kExclusive);
  EXPECT_FALSE(writer.granted_within(30ms));
  first.reset();
  EXPECT_FALSE(writer.granted_within(30ms)) << "the second reader has [5, 15)";
  { const auto moved = std::move(const_cast<RangeLocks::Hold&>(second)); }
  EXPECT_TRUE(writer.granted_within(10s));
}

TEST(RangeLocks, WhoWaitsIsNotOvertaken) {
  RangeLocks locks;
  std::optional<RangeLocks::Hold> reader = locks.lock(kFile, 0, 10, Mode::kShared);
  Waiter writer(locks, 0, 10, Mode::kExclusive);
  EXPECT_TRUE(is_waited_for(locks, 0, 10));
  EXPECT_FALSE(writer.granted_within(30ms));
  Waiter late_reader(locks, 0, 10, Mode::kShared);
  EXPECT_FALSE(late_reader.granted_within(30ms)) << "a stream of readers would starve the writer";
  reader.reset();
  ASSERT_TRUE(writer.granted_within(10s));
  EXPECT_FALSE(late_reader.granted_within(30ms));
  { const auto hold = writer.take(); }
  EXPECT_TRUE(late_reader.granted_within(10s));
}

TEST(RangeLocks, GivenBackFromAnotherThread) {
  RangeLocks locks;
  auto hold = locks.lock(kFile, 0, UINT64_MAX, Mode::kExclusive);
  std::thread([moved = std::move(hold)]() mutable { const auto here = std::move(moved); }).join();
  const auto again = locks.lock(kFile, 3, 4, Mode::kExclusive);
}

TEST(RangeLocks, NoTwoHoldAUnitThatOneOfThemChanges) {
  RangeLocks locks;
  constexpr size_t kUnits = 16;
  std::array<std::atomic<int>, kUnits> users{};  // -1: one that changes it
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::vector<std::thread> threads;
  for (unsigned worker = 0; worker < 6; ++worker) {
    threads.emplace_back([&, worker] {
      std::mt19937 random(seed + worker);
      for (int round = 0; round < 2000; ++round) {
        const size_t first = random() % kUnits;
        const size_t end = first + 1 + random() % (kUnits - first);
        const bool change = random() % 3 == 0;
        const Ino ino{random() % 2 + 1};
        const auto hold = locks.lock(ino, first, end, change ? Mode::kExclusive : Mode::kShared);
        if (ino != Ino{1}) continue;
        for (size_t unit = first; unit < end; ++unit) {
          const int before = change ? users[unit].exchange(-1) : users[unit].fetch_add(1);
          ASSERT_TRUE(change ? before == 0 : before >= 0);
        }
        for (size_t unit = first; unit < end; ++unit) change ? users[unit].store(0) : void(users[unit].fetch_sub(1));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace brickfs
