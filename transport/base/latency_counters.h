// SPDX-License-Identifier: Apache-2.0
// How long things take, counted where that goes on for ever: for each kind of them in buckets that double, from a
// microsecond on.
//
// Threads: any; counting takes no lock.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "transport/base/sharded_counters.h"

namespace brickfs {

// Bucket n counts what took less than 2^n microseconds and is in no bucket before it; the last one all the rest.
constexpr size_t kLatencyBuckets = 26;  // up to 16.8 s, and the rest

constexpr size_t latency_bucket(std::chrono::nanoseconds took) {
  const auto microseconds = static_cast<uint64_t>(std::max<int64_t>(0, took.count())) / 1000;
  return std::min<size_t>(static_cast<size_t>(std::bit_width(microseconds)), kLatencyBuckets - 1);
}

// The end of a bucket, in seconds; the last one has none.
constexpr double latency_bucket_seconds(size_t bucket) { return static_cast<double>(uint64_t{1} << bucket) * 1e-6; }

// Of one kind.
struct LatencyCounts {
  std::array<uint64_t, kLatencyBuckets> buckets{};
  uint64_t nanoseconds = 0;  // of all together
  uint64_t failures = 0;
  uint64_t bytes = 0;  // of data that went along

  uint64_t count() const {
    uint64_t all = 0;
    for (const uint64_t bucket : buckets) all += bucket;
    return all;
  }
  LatencyCounts& operator+=(const LatencyCounts& other) {
    for (size_t i = 0; i < kLatencyBuckets; ++i) buckets[i] += other.buckets[i];
    nanoseconds += other.nanoseconds;
    failures += other.failures;
    bytes += other.bytes;
    return *this;
  }
};

template <size_t kKinds>
class LatencyCounters {
 public:
  void count(size_t kind, std::chrono::nanoseconds took, bool failed, uint64_t bytes) {
    const size_t first = kind * kCells;
    counters_.add(first + latency_bucket(took), 1);
    counters_.add(first + kNanoseconds, static_cast<uint64_t>(std::max<int64_t>(0, took.count())));
    if (failed) counters_.add(first + kFailures, 1);
    if (bytes > 0) counters_.add(first + kBytes, bytes);
  }
  LatencyCounts counts(size_t kind) const {
    const size_t first = kind * kCells;
    LatencyCounts all;
    for (size_t i = 0; i < kLatencyBuckets; ++i) all.buckets[i] = counters_.sum(first + i);
    all.nanoseconds = counters_.sum(first + kNanoseconds);
    all.failures = counters_.sum(first + kFailures);
    all.bytes = counters_.sum(first + kBytes);
    return all;
  }

 private:
  enum Cell : size_t { kNanoseconds = kLatencyBuckets, kFailures, kBytes, kCells };

  ShardedCounters<kKinds * kCells> counters_;
};

}  // namespace brickfs
