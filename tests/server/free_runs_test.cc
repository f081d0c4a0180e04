// SPDX-License-Identifier: Apache-2.0
#include "server/store/free_runs.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace brickfs {
namespace {

TEST(FreeRuns, GivesTheWantedNumberElseTheNextElseTheLowest) {
  FreeRuns runs;
  EXPECT_EQ(runs.take(0), std::nullopt);
  runs.add(0, 10);
  EXPECT_EQ(runs.take(5), 5u);
  EXPECT_EQ(runs.take(5), 6u);
  EXPECT_EQ(runs.take(9), 9u);
  EXPECT_EQ(runs.take(9), 0u);
  EXPECT_EQ(runs.take(UINT32_MAX), 1u);
  EXPECT_EQ(runs.count(), 5u);
}

TEST(FreeRuns, AgreesWithASet) {
  const auto seed = std::random_device()();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  FreeRuns runs;
  std::set<uint32_t> model;
  std::set<uint32_t> taken;
  for (uint32_t i = 0; i < 200; ++i) taken.insert(i);
  for (int step = 0; step < 20'000; ++step) {
    if (random() % 2 == 0 && !taken.empty()) {
      auto back = taken.lower_bound(random() % 200);
      if (back == taken.end()) back = taken.begin();
      runs.add(*back);
      model.insert(*back);
      taken.erase(back);
    } else {
      const uint32_t wanted = random() % 200;
      auto expected = model.lower_bound(wanted);
      if (expected == model.end()) expected = model.begin();
      const auto got = runs.take(wanted);
      ASSERT_EQ(got.has_value(), !model.empty());
      if (!got) continue;
      ASSERT_EQ(*got, *expected);
      model.erase(expected);
      taken.insert(*got);
    }
    ASSERT_EQ(runs.count(), model.size());
  }
}

}  // namespace
}  // namespace brickfs
