// SPDX-License-Identifier: Apache-2.0
#include "transport/base/processor_demand.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>

namespace brickfs {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

class ProcessorDemandTest : public ::testing::Test {
 protected:
  // A slice of somebody's who computes.
  void lose_processor() { demand_.note(now_, milliseconds(3)); }
  // How long it holds from now on.
  milliseconds holds() {
    milliseconds held{0};
    while (demand_.is_high(now_ + held)) ++held;
    return held;
  }

  ProcessorDemand demand_;
  ProcessorDemand::Clock::time_point now_ = ProcessorDemand::Clock::now();
};

TEST_F(ProcessorDemandTest, IsLowWhereProcessorsComeBackSoon) {
  demand_.note(now_, ProcessorDemand::kTaken - microseconds(1));
  EXPECT_FALSE(demand_.is_high(now_));
}

TEST_F(ProcessorDemandTest, HoldsForAMoment) {
  lose_processor();
  EXPECT_EQ(holds(), ProcessorDemand::kFirst);
}

TEST_F(ProcessorDemandTest, ThreadsThatFindItTogetherCountOnce) {
  for (int i = 0; i < 10; ++i) lose_processor();
  EXPECT_EQ(holds(), ProcessorDemand::kFirst);
}

TEST_F(ProcessorDemandTest, FoundAgainItHoldsTwiceAsLongUpToABound) {
  auto expected = ProcessorDemand::kFirst;
  for (int i = 0; i < 20; ++i) {
    lose_processor();
    ASSERT_EQ(holds(), expected);
    now_ += expected + milliseconds(1);
    expected = std::min(2 * expected, ProcessorDemand::kLongest);
  }
}

TEST_F(ProcessorDemandTest, FoundAgainMuchLaterItBeginsAnew) {
  for (int i = 0; i < 4; ++i) {
    lose_processor();
    now_ += holds();
  }
  now_ += ProcessorDemand::kLongest;
  lose_processor();
  EXPECT_EQ(holds(), ProcessorDemand::kFirst);
}

}  // namespace
}  // namespace brickfs
