// SPDX-License-Identifier: Apache-2.0
// This process, stopped for a while and continued, as by a machine that is suspended.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>

namespace brickfs::testing {

inline void stop_for(std::chrono::milliseconds time) {
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child == 0) {
    kill(parent, SIGSTOP);
    usleep(static_cast<useconds_t>(time.count()) * 1000);
    kill(parent, SIGCONT);
    _exit(0);
  }
  EXPECT_EQ(waitpid(child, nullptr, 0), child);
}

}  // namespace brickfs::testing
