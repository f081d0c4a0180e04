// SPDX-License-Identifier: Apache-2.0
#include "transport/base/latency_counters.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace brickfs {
namespace {

using std::chrono::hours;
using std::chrono::microseconds;
using std::chrono::nanoseconds;

TEST(LatencyBuckets, Double) {
  EXPECT_EQ(latency_bucket(nanoseconds(-5)), 0u);
  EXPECT_EQ(latency_bucket(nanoseconds(999)), 0u);
  EXPECT_EQ(latency_bucket(microseconds(1)), 1u);
  EXPECT_EQ(latency_bucket(nanoseconds(1999)), 1u);
  EXPECT_EQ(latency_bucket(microseconds(2)), 2u);
  EXPECT_EQ(latency_bucket(microseconds(1'000'000)), 20u);
  EXPECT_EQ(latency_bucket(hours(5)), kLatencyBuckets - 1);
  for (size_t i = 0; i + 1 < kLatencyBuckets; ++i) {  // each holds what is below its end
    const auto end = nanoseconds(static_cast<int64_t>(latency_bucket_seconds(i) * 1e9));
    EXPECT_EQ(latency_bucket(end - nanoseconds(1)), i);
    EXPECT_EQ(latency_bucket(end), i + 1);
  }
}

TEST(LatencyCounters, LoseNothingOfManyThreads) {
  constexpr uint64_t kEach = 20'000;
  LatencyCounters<3> counters;
  std::vector<std::thread> threads;
  for (size_t i = 0; i < 12; ++i) {
    threads.emplace_back([&counters, i] {
      for (uint64_t n = 0; n < kEach; ++n) counters.count(i % 2, microseconds(3), n % 4 == 0, 10);
    });
  }
  for (std::thread& thread : threads) thread.join();
  const LatencyCounts one = counters.counts(1);
  EXPECT_EQ(one.count(), 6 * kEach);
  EXPECT_EQ(one.buckets[2], 6 * kEach);
  EXPECT_EQ(one.nanoseconds, 6 * kEach * 3000);
  EXPECT_EQ(one.failures, 6 * kEach / 4);
  EXPECT_EQ(one.bytes, 6 * kEach * 10);
  EXPECT_EQ(counters.counts(2).count(), 0u);
  LatencyCounts both = counters.counts(0);
  both += one;
  EXPECT_EQ(both.count(), 12 * kEach);
}

}  // namespace
}  // namespace brickfs
