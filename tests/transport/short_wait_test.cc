// SPDX-License-Identifier: Apache-2.0
#include "transport/base/short_wait.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace brickfs {
namespace {

using std::chrono::milliseconds;

class ShortWaitTest : public ::testing::Test {
 protected:
  static constexpr milliseconds kPoll{2000};  // a busy machine is not away for as long
  static constexpr milliseconds kSoon{300};

  // Whether it polled at all.
  bool polls() {
    bool polled = false;
    wait_.begin();
    (void)wait_.poll([&] { return polled = true; });
    return polled;
  }
  // Another test may have found that the processors are wanted.
  void SetUp() override {
    while (processor_demand().is_high(ProcessorDemand::Clock::now())) std::this_thread::sleep_for(milliseconds(1));
  }

  ShortWait wait_{ShortWait::Policy{kPoll, kSoon, 1}};
};

TEST_F(ShortWaitTest, PollsUntilItComes) {
  int times = 0;
  wait_.begin();
  EXPECT_TRUE(wait_.poll([&] { return ++times == 3; }));
  EXPECT_EQ(times, 3);
}

TEST_F(ShortWaitTest, PollsSoOftenBeforeItYields) {
  int times = 0;
  ShortWait glances{ShortWait::Policy{milliseconds(0), kSoon, 3}};
  glances.begin();
  EXPECT_FALSE(glances.poll([&] { return ++times == 4; }));
  EXPECT_EQ(times, 3);
}

TEST_F(ShortWaitTest, SleepsAtOnceAfterALongWait) {
  wait_.begin();
  std::this_thread::sleep_for(2 * kSoon);
  wait_.end();
  EXPECT_FALSE(polls());
  wait_.end();
  EXPECT_TRUE(polls());
}

TEST_F(ShortWaitTest, SleepsAtOnceWhileOthersWantTheProcessors) {
  EXPECT_TRUE(polls());
  processor_demand().note(ProcessorDemand::Clock::now() + kPoll, ProcessorDemand::kTaken);  // so it holds long enough
  EXPECT_FALSE(polls());
}

}  // namespace
}  // namespace brickfs
