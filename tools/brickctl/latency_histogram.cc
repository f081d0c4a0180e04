// SPDX-License-Identifier: Apache-2.0
#include "tools/brickctl/latency_histogram.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace brickfs {
namespace {

// Values below 2^kBits have a bucket each; above, every doubling has 2^(kBits - 1) of equal width.
constexpr int kBits = 8;
constexpr size_t kHalf = size_t{1} << (kBits - 1);
constexpr size_t kBuckets = 2 * kHalf + (64 - kBits) * kHalf;

size_t bucket_of(uint64_t value) {
  const int shift = std::bit_width(value) - kBits;
  if (shift <= 0) return value;
  return static_cast<size_t>(shift) * kHalf + static_cast<size_t>(value >> shift);
}

uint64_t last_of(size_t bucket) {
  if (bucket < 2 * kHalf) return bucket;
  const size_t shift = bucket / kHalf - 1;
  const uint64_t leading = kHalf + bucket % kHalf;
  return (leading << shift) + ((uint64_t{1} << shift) - 1);
}

}  // namespace

LatencyHistogram::LatencyHistogram() : buckets_(kBuckets) {}

void LatencyHistogram::record(uint64_t nanoseconds) {
  ++buckets_[bucket_of(nanoseconds)];
  ++count_;
  sum_ += nanoseconds;
  min_ = std::min(min_, nanoseconds);
  max_ = std::max(max_, nanoseconds);
}

void LatencyHistogram::add(const LatencyHistogram& other) {
  for (size_t i = 0; i < kBuckets; ++i) buckets_[i] += other.buckets_[i];
  count_ += other.count_;
  sum_ += other.sum_;
  min_ = std::min(min_, other.min_);
  max_ = std::max(max_, other.max_);
}

uint64_t LatencyHistogram::percentile_ns(double percent) const {
  const auto rank = static_cast<uint64_t>(std::ceil(percent / 100 * static_cast<double>(count_)));
  uint64_t seen = 0;
  for (size_t i = 0; i < kBuckets; ++i) {
    seen += buckets_[i];
    if (seen >= std::max<uint64_t>(rank, 1)) return std::clamp(last_of(i), min_, max_);
  }
  return max_;
}

}  // namespace brickfs
