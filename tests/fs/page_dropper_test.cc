// SPDX-License-Identifier: Apache-2.0
#include "fs/fuse/cache/page_dropper.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <thread>
#include <vector>

namespace brickfs {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using enum PageDropper::Asker;

constexpr PageDropper::Range kWritten{300'000, 4096};
constexpr PageDropper::Range kRegion{262'144, 262'144};

TEST(PageDropper, AnswersBehindTheDropOfWhatWasWrittenAndInTurn) {
  std::atomic<int> dropped = 0;
  PageDropper pages([&](Ino, uint64_t, uint64_t) {
    std::this_thread::sleep_for(milliseconds(1));
    ++dropped;
  });
  EXPECT_TRUE(pages.is_idle());
  std::promise<int> first, fence, last;
  ASSERT_TRUE(pages.drop(Ino{5}, kWritten, kRegion, kKernel, [&](bool) { first.set_value(dropped); }));
  ASSERT_TRUE(pages.drop(Ino{5}, {0, 0}, {0, 0}, kKernel, [&](bool) { fence.set_value(dropped); }));
  ASSERT_TRUE(pages.drop(Ino{5}, kWritten, kRegion, kOther, [&](bool) { last.set_value(dropped); }));
  EXPECT_EQ(first.get_future().get(), 1);
  EXPECT_EQ(fence.get_future().get(), 2) << "nothing is dropped, but what came before has been, whole";
  EXPECT_EQ(last.get_future().get(), 3);
  pages.stop();
  EXPECT_EQ(dropped, 4);
}

TEST(PageDropper, DropsWhatWasWrittenAndThenTheRegion) {
  std::vector<PageDropper::Range> dropped;
  PageDropper pages([&](Ino, uint64_t offset, uint64_t length) { dropped.push_back({offset, length}); });
  ASSERT_TRUE(pages.drop(Ino{5}, kWritten, kRegion, kKernel, [](bool) {}));
  pages.stop();
  EXPECT_EQ(dropped, (std::vector{kWritten, kRegion}));
}

TEST(PageDropper, ADropThatIsHeldUpKeepsTheKernelNotLong) {
  std::promise<void> unlock;
  auto unlocked = unlock.get_future().share();
  std::atomic<int> dropped = 0;
  PageDropper pages([&](Ino, uint64_t, uint64_t) {
    unlocked.wait();
    ++dropped;
  });
  std::promise<int> own;
  std::vector<std::promise<int>> answers(3);
  ASSERT_TRUE(pages.drop(Ino{5}, kWritten, kRegion, kOther, [&](bool) { own.set_value(dropped); }));
  for (auto& answer : answers) {
    ASSERT_TRUE(pages.drop(Ino{5}, kWritten, kRegion, kKernel,
                           [&](bool is_dropped) { answer.set_value(is_dropped ? -1 : int{dropped}); }));
  }
  for (auto& answer : answers) {
    auto answered = answer.get_future();
    ASSERT_EQ(answered.wait_for(seconds(60)), std::future_status::ready);
    EXPECT_EQ(answered.get(), 0);
  }
  auto own_answered = own.get_future();
  EXPECT_EQ(own_answered.wait_for(10 * PageDropper::kPatience), std::future_status::timeout);
  EXPECT_FALSE(pages.is_idle());
  unlock.set_value();
  pages.stop();
  EXPECT_EQ(own_answered.get(), 1);
  EXPECT_EQ(dropped, 8) << "what was answered is dropped all the same";
  EXPECT_TRUE(pages.is_idle());
}

TEST(PageDropper, WhatTakesLongAndIsNotHeldUpIsWaitedFor) {
  std::atomic<bool> dropped = false;
  PageDropper pages([&](Ino, uint64_t, uint64_t) {
    const auto end = std::chrono::steady_clock::now() + 10 * PageDropper::kPatience;
    while (std::chrono::steady_clock::now() < end) continue;  // as one that waits for a processor: it could run
    dropped = true;
  });
  std::promise<bool> answer;
  ASSERT_TRUE(pages.drop(Ino{5}, kWritten, kRegion, kKernel,
                         [&](bool is_dropped) { answer.set_value(is_dropped && dropped); }));
  EXPECT_TRUE(answer.get_future().get());
}

TEST(PageDropper, WhoHasATurnIsSeen) {
  PageDropper pages([](Ino, uint64_t, uint64_t) {});
  {
    const PageDropper::Turn turn(pages);
    EXPECT_FALSE(pages.is_idle());
  }
  EXPECT_TRUE(pages.is_idle());
}

TEST(PageDropper, AfterTheEndNothingIsTaken) {
  PageDropper pages([](Ino, uint64_t, uint64_t) {});
  pages.stop();
  EXPECT_FALSE(pages.drop(Ino{5}, kWritten, kRegion, kKernel, [](bool) { FAIL(); }));
  EXPECT_TRUE(pages.is_idle());
}

}  // namespace
}  // namespace brickfs
