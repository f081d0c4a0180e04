// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <future>
#include <thread>

#include "fs/fuse/cache/notices.h"

namespace brickfs {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(PageWriter, WhoAskedWaitsUntilItIsDone) {
  std::atomic<int> written = 0;
  PageWriter pages([&](Ino) {
    std::this_thread::sleep_for(milliseconds(2));
    ++written;
  });
  pages.run_later([&] { ++written; });
  EXPECT_TRUE(pages.write_back(Ino{5}, seconds(60), nullptr).ok());
  EXPECT_EQ(written, 2) << "what came before is done first";
}

TEST(PageWriter, NobodyWaitsLongerThanHeWants) {
  std::promise<void> unlock;
  auto unlocked = unlock.get_future().share();
  PageWriter pages([&](Ino) { unlocked.wait(); });
  EXPECT_EQ(pages.write_back(Ino{5}, milliseconds(60), nullptr).code(), ETIMEDOUT);
  Interruption interrupted;
  interrupted.raise();
  EXPECT_EQ(pages.write_back(Ino{5}, seconds(60), &interrupted).code(), EINTR);
  unlock.set_value();
  EXPECT_TRUE(pages.write_back(Ino{6}, seconds(60), nullptr).ok());
}

TEST(PageWriter, AFileThatManyWaitForIsQueuedOnce) {
  std::promise<void> unlock;
  auto unlocked = unlock.get_future().share();
  std::atomic<int> written = 0;
  PageWriter pages([&](Ino ino) {
    unlocked.wait();
    if (ino == Ino{6}) ++written;
  });
  EXPECT_EQ(pages.write_back(Ino{5}, milliseconds(20), nullptr).code(), ETIMEDOUT);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(pages.write_back(Ino{6}, milliseconds(1), nullptr).code(), ETIMEDOUT);
  auto waits = std::async(std::launch::async, [&] { return pages.write_back(Ino{6}, seconds(60), nullptr).code(); });
  unlock.set_value();
  EXPECT_EQ(waits.get(), 0);
  EXPECT_TRUE(pages.write_back(Ino{7}, seconds(60), nullptr).ok());
  EXPECT_GE(written, 1);
  EXPECT_LE(written, 2) << "the last may have come too late to join";
  const int before = written;
  EXPECT_TRUE(pages.write_back(Ino{6}, seconds(60), nullptr).ok());
  EXPECT_EQ(written, before + 1) << "there may be more to write";
}

TEST(PageWriter, AJobIsRunHoweverManyFilesWait) {
  std::promise<void> unlock, begun, ran;
  auto unlocked = unlock.get_future().share();
  PageWriter pages([&](Ino ino) {
    if (ino == Ino{5}) begun.set_value();
    unlocked.wait();
  });
  EXPECT_EQ(pages.write_back(Ino{5}, milliseconds(0), nullptr).code(), ETIMEDOUT);
  begun.get_future().wait();
  for (size_t i = 0; i < NoticeThread::kMost; ++i) (void)pages.write_back(Ino{100 + i}, milliseconds(0), nullptr);
  EXPECT_EQ(pages.write_back(Ino{7}, seconds(60), nullptr).code(), EAGAIN);
  EXPECT_EQ(pages.write_back(Ino{7}, seconds(60), nullptr).code(), EAGAIN) << "nothing is left of the first try";
  pages.run_later([&] { ran.set_value(); });
  unlock.set_value();
  EXPECT_EQ(ran.get_future().wait_for(seconds(60)), std::future_status::ready);
}

TEST(PageWriter, AtTheEndWhoWaitsIsLetGo) {
  std::promise<void> unlock, begun;
  auto unlocked = unlock.get_future().share();
  PageWriter pages([&](Ino) {
    begun.set_value();
    unlocked.wait();
  });
  auto waits = std::async(std::launch::async, [&] { return pages.write_back(Ino{5}, seconds(60), nullptr).code(); });
  begun.get_future().wait();
  std::thread stopping([&] { pages.stop(); });
  EXPECT_EQ(waits.get(), ECANCELED);
  unlock.set_value();
  stopping.join();
  EXPECT_EQ(pages.write_back(Ino{5}, seconds(60), nullptr).code(), ECANCELED);
}

TEST(NoticeThread, WhoseNoticeWasNotGivenIsToldOnce) {
  std::promise<void> unlock, begun;
  auto unlocked = unlock.get_future().share();
  NoticeThread notices;
  std::promise<int> first, second;
  int late = 0;
  const auto wait = [&] {
    begun.set_value();
    unlocked.wait();
  };
  notices.give(wait, [&](const Status& status) { first.set_value(status.code()); });
  begun.get_future().wait();
  notices.give([] {}, [&](const Status& status) { second.set_value(status.code()); });
  std::thread stopping([&] { notices.stop(); });
  EXPECT_EQ(second.get_future().get(), ECANCELED);
  unlock.set_value();
  stopping.join();
  EXPECT_EQ(first.get_future().get(), 0);
  notices.give([] {}, [&](const Status& status) { late = status.code(); });
  EXPECT_EQ(late, ECANCELED);
}

}  // namespace
}  // namespace brickfs
