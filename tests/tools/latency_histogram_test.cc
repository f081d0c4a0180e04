// SPDX-License-Identifier: Apache-2.0
#include "tools/brickctl/latency_histogram.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

namespace brickfs {
namespace {

TEST(LatencyHistogram, SmallValuesAreExact) {
  LatencyHistogram latencies;
  for (uint64_t value = 1; value <= 100; ++value) latencies.record(value);
  EXPECT_EQ(latencies.count(), 100u);
  EXPECT_EQ(latencies.min_ns(), 1u);
  EXPECT_EQ(latencies.max_ns(), 100u);
  EXPECT_DOUBLE_EQ(latencies.mean_ns(), 50.5);
  EXPECT_EQ(latencies.percentile_ns(50), 50u);
  EXPECT_EQ(latencies.percentile_ns(99), 99u);
  EXPECT_EQ(latencies.percentile_ns(99.9), 100u);
  EXPECT_EQ(latencies.percentile_ns(100), 100u);
  EXPECT_EQ(latencies.percentile_ns(0.001), 1u);
}

TEST(LatencyHistogram, PercentilesAreThoseOfTheSortedValuesWithinAPercent) {
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  std::lognormal_distribution<double> spread(11, 3);  // from well below a microsecond to minutes
  LatencyHistogram latencies;
  std::vector<uint64_t> values;
  for (int i = 0; i < 20'000; ++i) {
    values.push_back(static_cast<uint64_t>(spread(random)));
    latencies.record(values.back());
  }
  std::sort(values.begin(), values.end());
  for (const double percent : {1.0, 50.0, 90.0, 99.0, 99.9, 100.0}) {
    const auto rank = static_cast<size_t>(std::ceil(percent / 100 * static_cast<double>(values.size())));
    const auto exact = static_cast<double>(values[rank - 1]);
    EXPECT_GE(static_cast<double>(latencies.percentile_ns(percent)), exact);
    EXPECT_LE(static_cast<double>(latencies.percentile_ns(percent)), exact * 1.01 + 1);
  }
}

TEST(LatencyHistogram, TakesTheWholeRange) {
  LatencyHistogram latencies;
  for (const uint64_t value : {uint64_t{0}, uint64_t{255}, uint64_t{256}, uint64_t{1} << 40, UINT64_MAX}) {
    latencies.record(value);
  }
  EXPECT_EQ(latencies.percentile_ns(100), UINT64_MAX);
  EXPECT_EQ(latencies.percentile_ns(20), 0u);
  EXPECT_EQ(latencies.percentile_ns(40), 255u);
}

TEST(LatencyHistogram, SumsOfSeveralAreAsOfOne) {
  LatencyHistogram all;
  LatencyHistogram one;
  LatencyHistogram other;
  for (uint64_t value = 1; value < 5000; value += 7) {
    all.record(value);
    (value % 2 == 0 ? one : other).record(value);
  }
  LatencyHistogram sum;
  sum.add(one);
  sum.add(other);
  EXPECT_EQ(sum.count(), all.count());
  EXPECT_EQ(sum.min_ns(), all.min_ns());
  EXPECT_EQ(sum.max_ns(), all.max_ns());
  EXPECT_DOUBLE_EQ(sum.mean_ns(), all.mean_ns());
  EXPECT_EQ(sum.percentile_ns(90), all.percentile_ns(90));
}

}  // namespace
}  // namespace brickfs
