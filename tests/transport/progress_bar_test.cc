// SPDX-License-Identifier: Apache-2.0
#include "transport/base/progress_bar.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace brickfs {
namespace {

TEST(ProgressLine, HasABarTheRateAndTheTimeLeft) {
  EXPECT_EQ(progress_line("blocks read", 50, 200, 10, 100),
            "[======>                 ]  25 %  50 of 200 blocks read  10/s  15 s left");
  EXPECT_EQ(progress_line("blocks read", 0, 100'000, 10, 100),
            "[>                       ]   0 %  0 of 100000 blocks read  10/s  2:46 h left");
  EXPECT_EQ(progress_line("blocks read", 200, 200, 10, 100),
            "[========================] 100 %  200 of 200 blocks read");
}

TEST(ProgressLine, FitsAndBearsNonsense) {
  EXPECT_EQ(progress_line("blocks read", 50, 200, 10, 20).size(), 20u);
  EXPECT_EQ(progress_line("blocks read", 50, 200, 10, 58),
            "[==>       ]  25 %  50 of 200 blocks read  10/s  15 s left");
  EXPECT_EQ(progress_line("blocks", 300, 200, 0, 100), "[========================] 100 %  200 of 200 blocks");
  EXPECT_EQ(progress_line("blocks", 0, 0, 0, 100), "[========================] 100 %  0 of 0 blocks");
}

// For those who have no terminal. What moves no more is not told again, and what is waited for instead is told at once.
TEST(ProgressBar, SaysNothingTwice) {
  constexpr std::chrono::milliseconds kLongerThanTwoLinesTake{5'200};
  ::testing::internal::CaptureStderr();
  ProgressBar bar;
  const auto until = std::chrono::steady_clock::now() + kLongerThanTwoLinesTake;
  while (std::chrono::steady_clock::now() < until) {
    bar.show("operations committed", 3, 3);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  bar.say("waiting");
  bar.say("waiting");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "3 of 3 operations committed\nwaiting\n");
}

}  // namespace
}  // namespace brickfs
