// SPDX-License-Identifier: Apache-2.0
#include "fs/fuse/page_writer.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <future>
#include <thread>

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

TEST(PageWriter, WhoDoesNotWaitIsToldOnce) {
  std::promise<void> unlock, begun;
  auto unlocked = unlock.get_future().share();
  PageWriter pages([&](Ino) {
    begun.set_value();
    unlocked.wait();
  });
  std::promise<int> first, second;
  int late = 0;
  pages.write_back(Ino{5}, [&](const Status& status) { first.set_value(status.code()); });
  begun.get_future().wait();
  pages.write_back(Ino{6}, [&](const Status& status) { second.set_value(status.code()); });
  std::thread stopping([&] { pages.stop(); });
  EXPECT_EQ(second.get_future().get(), ECANCELED);
  unlock.set_value();
  stopping.join();
  EXPECT_EQ(first.get_future().get(), 0);
  pages.write_back(Ino{7}, [&](const Status& status) { late = status.code(); });
  EXPECT_EQ(late, ECANCELED);
}

}  // namespace
}  // namespace brickfs
