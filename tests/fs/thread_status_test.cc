// SPDX-License-Identifier: Apache-2.0
#include "fs/fuse/interrupt/thread_status.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace brickfs {
namespace {

TEST(ThreadStatus, HasItsFields) {
  const std::string status = thread_status(static_cast<uint32_t>(gettid()));
  EXPECT_EQ(status_field(status, "Pid"), std::to_string(gettid()));
  EXPECT_EQ(status_field(status, "Tgid"), std::to_string(getpid()));
  EXPECT_EQ(status_field(status, "Pi"), "");
  EXPECT_EQ(status_field("Name:\tdd\nGroups:\t4 24 \nCapEff:\t00000000000000ff", "Groups"), "4 24 ");
  EXPECT_EQ(status_bits("Name:\tdd\nGroups:\t4 24 \nCapEff:\t00000000000000ff", "CapEff"), 0xffu);
  EXPECT_EQ(status_field("Groups:", "Groups"), "");
  EXPECT_EQ(status_bits("", "CapEff"), 0u);
}

TEST(ThreadStatus, OfNobodyIsEmpty) {
  EXPECT_EQ(thread_status(0), "");
  const pid_t child = fork();
  if (child == 0) _exit(0);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  EXPECT_EQ(thread_status(static_cast<uint32_t>(child)), "");
}

// It is looked at when a signal has just ended it.
TEST(ThreadStatus, OfAThreadThatEndsMeanwhileIsTextOrNothing) {
  std::atomic<uint32_t> newest{0};
  std::atomic<bool> done{false};
  std::thread looking([&] {
    while (!done) {
      const std::string status = thread_status(newest);
      EXPECT_TRUE(status.empty() || status.starts_with("Name:"));
    }
  });
  for (int i = 0; i < 3'000; ++i) std::thread([&] { newest = static_cast<uint32_t>(gettid()); }).join();
  done = true;
  looking.join();
}

TEST(ThreadStatus, TellsWhetherItEnds) {
  EXPECT_FALSE(is_exiting(static_cast<uint32_t>(gettid())));
  EXPECT_FALSE(is_exiting(0));
  const pid_t child = fork();
  if (child == 0) _exit(0);
  EXPECT_EQ(waitid(P_PID, static_cast<id_t>(child), nullptr, WEXITED | WNOWAIT), 0);
  EXPECT_TRUE(is_exiting(static_cast<uint32_t>(child))) << "nobody has waited for it yet";
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  EXPECT_FALSE(is_exiting(static_cast<uint32_t>(child)));
  EXPECT_TRUE(tells_of_exiting("7 (a) b (c) D 1 7 7 0 -1 4194564 120 0"));
  EXPECT_FALSE(tells_of_exiting("7 (a) 4 4 4 4 4 4 4 (c) D 1 7 7 0 -1 4194560 120 0"));
  EXPECT_FALSE(tells_of_exiting("7 (a"));
}

}  // namespace
}  // namespace brickfs
