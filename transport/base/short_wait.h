// SPDX-License-Identifier: Apache-2.0
// A wait that often is short. To sleep and to be woken up takes longer than many a thing that is waited for, and
// whoever wakes pays, too: so one polls for it oneself for a moment first. Where the last wait was long, the next one
// sleeps at once, so that nothing is spent on what is idle; so do all while others want the processors. All waits that
// poll before they sleep do it by this, and whoever polls yields between two tries. docs/decisions, 34.
//
// Threads: one at a time.
#pragma once

#include <sched.h>

#include <chrono>
#include <utility>

#include "transport/base/processor_demand.h"

namespace brickfs {

class ShortWait {
 public:
  // Polls for `poll`, after a wait that took less than `soon`. All that there are; none is longer than what it saves is
  // worth.
  struct Policy {
    std::chrono::microseconds poll;
    std::chrono::microseconds soon;
    int tries_per_yield;  // more than one where a try is only a glance into memory
  };
  // For what the peer sends, what the kernel asks, and work of our own.
  static constexpr Policy kForMessage{std::chrono::microseconds(50), std::chrono::microseconds(150), 1};
  static constexpr Policy kForRequest{std::chrono::microseconds(100), std::chrono::microseconds(500), 1};
  static constexpr Policy kForWork{std::chrono::microseconds(60), std::chrono::microseconds(1'000), 1};
  // Over RDMA. A small one on a fast network is done long before; one over Soft-RoCE, whose work is done by kernel
  // threads that have to be woken, within this. What the last transfer took says nothing of the next.
  static constexpr Policy kForTransfer{std::chrono::microseconds(300), std::chrono::hours(1), 32};

  explicit ShortWait(const Policy& policy) : policy_(policy) {}

  void begin() { began_ = Clock::now(); }
  // Until come() is true: then true. False: it is time to sleep.
  template <typename Come>
  bool poll(Come come) const {
    if (last_ >= policy_.soon || processor_demand().is_high(began_)) return false;
    for (auto now = Clock::now(); !comes(come);) {
      if (now >= began_ + policy_.poll) return false;
      ::sched_yield();  // whoever is to bring it may want this processor
      const auto yielded = std::exchange(now, Clock::now());
      processor_demand().note(now, now - yielded);
    }
    return true;
  }
  void end() { last_ = Clock::now() - began_; }

 private:
  using Clock = std::chrono::steady_clock;

  template <typename Come>
  bool comes(Come& come) const {
    for (int tried = 0; tried < policy_.tries_per_yield; ++tried) {
      if (come()) return true;
    }
    return false;
  }

  const Policy policy_;
  Clock::time_point began_;
  Clock::duration last_{};
};

}  // namespace brickfs
