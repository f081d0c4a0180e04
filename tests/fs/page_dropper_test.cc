// SPDX-License-Identifier: Apache-2.0
#include "fs/fuse/page_dropper.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <thread>
#include <vector>

namespace brickfs {
namespace {

using std::chrono::seconds;

TEST(PageDropper, AnswersBehindTheDropAndInTurn) {
  std::atomic<int> dropped = 0;
  PageDropper pages([&](Ino, uint64_t, uint64_t) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    ++dropped;
  });
  EXPECT_TRUE(pages.is_idle());
  std::promise<int> first, fence, last;
  ASSERT_TRUE(pages.drop(Ino{5}, 0, 4096, [&] { first.set_value(dropped); }));
  ASSERT_TRUE(pages.drop(Ino{5}, 0, 0, [&] { fence.set_value(dropped); }));
  ASSERT_TRUE(pages.drop(Ino{5}, 8192, 4096, [&] { last.set_value(dropped); }));
  EXPECT_EQ(first.get_future().get(), 1);
  EXPECT_EQ(fence.get_future().get(), 1) << "nothing is dropped, but what came before has been";
  EXPECT_EQ(last.get_future().get(), 2);
}

TEST(PageDropper, ADropThatIsHeldUpKeepsNobodyLong) {
  std::promise<void> unlock;
  auto unlocked = unlock.get_future().share();
  std::atomic<int> dropped = 0;
  PageDropper pages([&](Ino, uint64_t, uint64_t) {
    unlocked.wait();
    ++dropped;
  });
  std::vector<std::promise<int>> answers(3);
  for (auto& answer : answers) {
    ASSERT_TRUE(pages.drop(Ino{5}, 0, 4096, [&] { answer.set_value(dropped); }));
  }
  for (auto& answer : answers) {
    auto answered = answer.get_future();
    ASSERT_EQ(answered.wait_for(seconds(10)), std::future_status::ready);
    EXPECT_EQ(answered.get(), 0);
  }
  EXPECT_FALSE(pages.is_idle());
  unlock.set_value();
  pages.stop();
  EXPECT_EQ(dropped, 3) << "what was answered is dropped all the same";
  EXPECT_TRUE(pages.is_idle());
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
  EXPECT_FALSE(pages.drop(Ino{5}, 0, 4096, [] { FAIL(); }));
  EXPECT_TRUE(pages.is_idle());
}

}  // namespace
}  // namespace brickfs
