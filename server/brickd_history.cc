// SPDX-License-Identifier: Apache-2.0
#include "server/brickd_history.h"

#include <chrono>
#include <utility>

namespace brickfs {

BrickHistory::BrickHistory(const BrickService& service, std::vector<const Listener*> listeners)
    : service_(service), listeners_(std::move(listeners)) {}

BrickHistory::~BrickHistory() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

BrickHistory::Sample BrickHistory::sample() const {
  using std::chrono::milliseconds;
  Sample sample;
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  sample.unix_milliseconds = std::chrono::duration_cast<milliseconds>(now).count();
  const BrickNumbers numbers = service_.numbers();
  sample.used_blocks = numbers.blocks.used;
  sample.sessions = numbers.holders + numbers.readers + numbers.observers;
  sample.committed_bytes = numbers.blocks.committed_bytes;
  for (const Listener* const listener : listeners_) {
    const PeerCounters& counters = listener->counters();
    sample.read_bytes += counters.transferred_bytes(Direction::kRead);
    sample.written_bytes += counters.transferred_bytes(Direction::kWrite);
    for (const calls::NamedKind& call : calls::kKinds) {
      if (call.kind != calls::Kind::kAttach) sample.calls += counters.calls_of(call.kind);
    }
  }
  return sample;
}

void BrickHistory::run() {
  auto next = std::chrono::steady_clock::now();
  for (;;) {
    const Sample now = sample();
    MutexLock lock(mutex_);
    samples_.push_back(now);
    if (samples_.size() > kSamples) samples_.pop_front();
    next += kApart;
    while (!stopping_ && std::chrono::steady_clock::now() < next) changed_.wait_until(lock, next);
    if (stopping_) return;
  }
}

std::vector<BrickHistory::Sample> BrickHistory::samples() const {
  std::vector<Sample> samples;
  {
    MutexLock lock(mutex_);
    samples.assign(samples_.begin(), samples_.end());
  }
  const Sample now = sample();
  const bool is_soon = !samples.empty() && now.unix_milliseconds - samples.back().unix_milliseconds < kLeast.count();
  if (!is_soon) samples.push_back(now);
  return samples;
}

double latency_percentile_us(const LatencyCounts& counts, double share) {
  const double wanted = share * static_cast<double>(counts.count());
  double below = 0;
  for (size_t i = 0; i < kLatencyBuckets; ++i) {
    const auto here = static_cast<double>(counts.buckets[i]);
    if (here > 0 && below + here >= wanted) {
      const double begin = i == 0 ? 0 : latency_bucket_seconds(i - 1);
      const double end = i + 1 == kLatencyBuckets ? begin : latency_bucket_seconds(i);
      return (begin + (end - begin) * (wanted - below) / here) * 1e6;
    }
    below += here;
  }
  return 0;
}

}  // namespace brickfs
