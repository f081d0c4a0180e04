// SPDX-License-Identifier: Apache-2.0
// Whether others want this machine's processors. A thread that yields to poll again at once has its processor back
// within microseconds while nobody else computes; else only when the other's slice has ended, some milliseconds later,
// and it had better sleep: who is woken is preferred to who yields. So it is told from how long that took. What was
// found holds for a while, the longer the oftener in a row. docs/decisions, 34.
//
// Threads: any.
#pragma once

#include <atomic>
#include <chrono>

namespace brickfs {

class ProcessorDemand {
 public:
  using Clock = std::chrono::steady_clock;

  // So long a processor is away only if somebody computes; a call of somebody's is over before.
  static constexpr std::chrono::microseconds kTaken{500};
  static constexpr std::chrono::milliseconds kFirst{10};  // it holds at first, and at most
  static constexpr std::chrono::milliseconds kLongest{640};

  bool is_high(Clock::time_point now) const {
    return now.time_since_epoch().count() < until_.load(std::memory_order_relaxed);
  }
  // Somebody got his processor back at `now`, which took so long.
  void note(Clock::time_point now, Clock::duration away) {
    if (away >= kTaken) note_high(now);
  }

 private:
  void note_high(Clock::time_point now);

  std::atomic<Clock::rep> until_{0};  // on the clock
  std::atomic<Clock::rep> held_{0};   // so long it held last
};

// This machine's.
ProcessorDemand& processor_demand();

}  // namespace brickfs
