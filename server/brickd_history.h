// SPDX-License-Identifier: Apache-2.0
// What a brick did in the last hour, sampled on a thread of its own.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "server/brickd_metrics.h"
#include "server/service/brick_service.h"
#include "transport/base/latency_counters.h"
#include "transport/base/mutex.h"
#include "transport/base/thread.h"

namespace brickfs {

class BrickHistory {
 public:
  // Totals, but for `used_blocks` and `sessions`.
  struct Sample {
    int64_t unix_milliseconds = 0;
    uint64_t used_blocks = 0;
    uint64_t sessions = 0;
    uint64_t read_bytes = 0;  // over TCP
    uint64_t written_bytes = 0;
    uint64_t committed_bytes = 0;
    LatencyCounts calls;
  };
  static constexpr std::chrono::seconds kApart{10};
  static constexpr std::chrono::milliseconds kLeast{3'000};  // what is shown is of no less
  static constexpr size_t kSamples = 361;                    // an hour, and where it begins

  // Both outlive this.
  BrickHistory(const BrickService& service, std::vector<const Listener*> listeners);
  ~BrickHistory();
  BrickHistory(const BrickHistory&) = delete;
  BrickHistory& operator=(const BrickHistory&) = delete;

  // Oldest first; the last one is of now, or of some moments ago.
  std::vector<Sample> samples() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  Sample sample() const;
  void run();

  const BrickService& service_;
  const std::vector<const Listener*> listeners_;

  mutable Mutex mutex_;
  CondVar changed_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::deque<Sample> samples_ ABSL_GUARDED_BY(mutex_);
  Thread thread_{[this] { run(); }};
};

// The time within which this share of them was done, in microseconds; within a bucket by its part. 0: there were none.
double latency_percentile_us(const LatencyCounts& counts, double share);

}  // namespace brickfs
