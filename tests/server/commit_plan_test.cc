// SPDX-License-Identifier: Apache-2.0
#include "server/store/commit_plan.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "transport/brick/limits.h"

namespace brickfs {
namespace {

using Round = CommitPlan::Round;

CommitPlan plan_of(const std::vector<CommitRange>& ranges) {
  auto plan = CommitPlan::make(ranges);
  EXPECT_TRUE(plan.ok());
  return *std::move(plan);
}

TEST(CommitPlan, WhatOverlapsIsWrittenOnce) {
  const auto plan = plan_of({{100, 50, false}, {120, 100, false}, {0, 10, false}, {10, 5, false}, {100, 50, false}});
  EXPECT_EQ(plan.rounds(), (std::vector<Round>{{{0, 14}, {100, 219}}}));
}

TEST(CommitPlan, EachByteBelongsToTheFirstRoundThatNamesIt) {
  const auto plan = plan_of({{100, 100, false}, {50, 200, true}, {120, 10, true}, {400, 1, true}, {0, 1000, false}});
  EXPECT_EQ(plan.rounds(), (std::vector<Round>{{{100, 199}}, {{50, 99}, {200, 249}}, {}, {{0, 49}, {250, 999}}}));
}

TEST(CommitPlan, NamesEachBlockOnceAndKnowsWhichItNamesWhole) {
  const auto plan = plan_of({{kBlockBytes - 1, 2, false},
                             {kBlockBytes + 1, kBlockBytes - 1, true},
                             {3 * kBlockBytes + 5, 10, false},
                             {3 * kBlockBytes + 50, 10, false},
                             {5 * kBlockBytes, 2 * kBlockBytes, false}});
  EXPECT_EQ(plan.blocks(),
            (std::vector<BlockRange>{
                {BlockAddress{0}, 2}, {BlockAddress{3 * kBlockBytes}, 1}, {BlockAddress{5 * kBlockBytes}, 2}}));
  const std::vector<BlockAddress> whole = {BlockAddress{kBlockBytes}, BlockAddress{5 * kBlockBytes},
                                           BlockAddress{6 * kBlockBytes}};
  EXPECT_EQ(plan.whole_blocks(), whole);
}

TEST(CommitPlan, RefusesImpossibleRangesAndGoesToTheEndOfTheSpace) {
  const auto code = [](const CommitRange& range) { return CommitPlan::make({&range, 1}).code(); };
  EXPECT_EQ(code({0, 0, false}), EINVAL);
  EXPECT_EQ(code({UINT64_MAX, 2, false}), EINVAL);
  EXPECT_EQ(code({5, UINT64_MAX, false}), EINVAL);
  EXPECT_EQ(CommitPlan::make(std::vector<CommitRange>(limits::kRangesPerCommit + 1, {0, 1, false})).code(), EINVAL);
  const auto plan = plan_of({{UINT64_MAX - 9, 10, false}, {0, UINT64_MAX, true}, {UINT64_MAX - 20, 21, true}});
  EXPECT_EQ(plan.rounds(), (std::vector<Round>{{{UINT64_MAX - 9, UINT64_MAX}}, {{0, UINT64_MAX - 10}}, {}}));
}

TEST(CommitPlan, AsABytewiseModelHasIt) {
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  for (int run = 0; run < 300; ++run) {
    std::vector<CommitRange> ranges;
    std::vector<int> first_round(64, -1);
    int round = -1;
    for (int i = 0; i < 20; ++i) {
      const uint64_t address = random() % 60;
      const CommitRange range{address, 1 + random() % (64 - address), random() % 4 == 0};
      if (i == 0 || range.after_previous) ++round;
      for (uint64_t at = address; at < address + range.length_bytes; ++at) {
        if (first_round[at] < 0) first_round[at] = round;
      }
      ranges.push_back(range);
    }
    const auto plan = plan_of(ranges);
    std::vector<int> planned(64, -1);
    ASSERT_EQ(plan.rounds().size(), static_cast<size_t>(round + 1));
    for (size_t i = 0; i < plan.rounds().size(); ++i) {
      for (const auto& bytes : plan.rounds()[i]) {
        for (uint64_t at = bytes.first; at <= bytes.last; ++at) {
          ASSERT_EQ(planned[at], -1) << "written twice";
          planned[at] = static_cast<int>(i);
        }
      }
    }
    ASSERT_EQ(planned, first_round);
  }
}

}  // namespace
}  // namespace brickfs
