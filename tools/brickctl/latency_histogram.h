// SPDX-License-Identifier: Apache-2.0
// Latencies as counts in buckets whose width grows with the value: percentiles of any number of them, to within 1 %, in
// fixed memory and without allocating while measuring.
#pragma once

#include <cstdint>
#include <vector>

namespace brickfs {

class LatencyHistogram {
 public:
  LatencyHistogram();

  void record(uint64_t nanoseconds);
  void add(const LatencyHistogram& other);

  uint64_t count() const { return count_; }
  // Precondition of the rest: count() > 0. The bounds and the mean are exact.
  uint64_t min_ns() const { return min_; }
  uint64_t max_ns() const { return max_; }
  double mean_ns() const { return static_cast<double>(sum_) / static_cast<double>(count_); }
  // The smallest value that `percent` of all do not pass (rounded up to its bucket's end). 0 < percent <= 100.
  uint64_t percentile_ns(double percent) const;

 private:
  std::vector<uint64_t> buckets_;
  uint64_t count_ = 0;
  uint64_t sum_ = 0;
  uint64_t min_ = UINT64_MAX;
  uint64_t max_ = 0;
};

}  // namespace brickfs
