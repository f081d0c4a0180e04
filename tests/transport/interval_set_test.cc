// SPDX-License-Identifier: Apache-2.0
#include "transport/base/interval_set.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace brickfs {
namespace {

using Set = IntervalSet<uint32_t>;

TEST(IntervalSet, NeighboursBecomeOneAndTheMiddleLeavesTwo) {
  Set set;
  set.insert({10, 20});
  set.insert({20, 30});
  set.insert({5, 7});
  EXPECT_EQ(set.intervals(), 2u);
  EXPECT_EQ(set.at_or_behind(8), (Set::Interval{10, 30}));
  EXPECT_EQ(set.at_or_behind(15), (Set::Interval{15, 30}));
  EXPECT_EQ(set.at_or_behind(30), std::nullopt);
  set.erase({12, 14});
  EXPECT_EQ(set.intervals(), 3u);
  EXPECT_EQ(set.count(), 20u);
  EXPECT_EQ(set.last(), (Set::Interval{14, 30}));
  set.insert({0, 0});
  set.erase({14, 14});
  EXPECT_EQ(set.count(), 20u);
}

// Against a bit for each number.
TEST(IntervalSet, IsWhatBitsSay) {
  constexpr uint32_t kNumbers = 64;
  const uint32_t seed = std::random_device()();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  const auto below = [&random](uint32_t end) { return static_cast<uint32_t>(random() % end); };
  Set set;
  std::vector<bool> bits(kNumbers + 1);  // the last is never set
  for (int round = 0; round < 20'000; ++round) {
    const uint32_t first = below(kNumbers);
    const Set::Interval numbers{first, first + below(kNumbers - first + 1)};
    const bool inserting = below(2) == 0;
    if (inserting) set.insert(numbers);
    if (!inserting) set.erase(numbers);
    for (uint32_t n = numbers.first; n < numbers.end; ++n) bits[n] = inserting;

    const uint32_t from = below(kNumbers);
    const Set::Interval asked{from, from + below(kNumbers - from + 1)};
    uint32_t in = 0;
    for (uint32_t n = asked.first; n < asked.end; ++n) in += bits[n] ? 1 : 0;
    ASSERT_EQ(set.contains_all(asked), in == asked.count());
    ASSERT_EQ(set.contains_any(asked), in > 0);
    uint32_t visited = 0;
    set.for_each(asked, [&](const Set::Interval& part) {
      visited += part.count();
      return true;
    });
    ASSERT_EQ(visited, in);
    uint32_t next = from;
    while (next < kNumbers && !bits[next]) ++next;
    uint32_t end = next;
    while (bits[end]) ++end;
    const auto found = set.at_or_behind(from);
    ASSERT_EQ(found.has_value(), next < kNumbers);
    if (found) {
      ASSERT_EQ(*found, (Set::Interval{next, end}));
    }
    uint32_t all = 0, intervals = 0;
    for (uint32_t n = 0; n < kNumbers; ++n) {
      all += bits[n] ? 1 : 0;
      intervals += bits[n] && !bits[n + 1] ? 1 : 0;
    }
    ASSERT_EQ(set.count(), all);
    ASSERT_EQ(set.intervals(), intervals);
  }
}

}  // namespace
}  // namespace brickfs
