// SPDX-License-Identifier: Apache-2.0
// A wait that often is short. To sleep and to be woken up takes longer than many a thing that is waited for, and
// whoever wakes pays, too: so one looks for it oneself for a moment first. Where the last wait was long, the next one
// sleeps at once, so that nothing is spent on what is idle; so do all while others want the processors. docs/decisions,
// 34 and 50.
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
  // Looks so long, after a wait that took less than `soon`.
  ShortWait(std::chrono::microseconds look, std::chrono::microseconds soon) : look_(look), soon_(soon) {}

  void begin() { began_ = Clock::now(); }
  // Until come() is true: then true. False: it is time to sleep.
  template <typename Come>
  bool look(Come come) const {
    if (last_ >= soon_ || processor_demand().is_high(began_)) return false;
    for (auto now = Clock::now(); !come();) {
      if (now >= began_ + look_) return false;
      ::sched_yield();  // whoever is to bring it may want this processor
      const auto yielded = std::exchange(now, Clock::now());
      processor_demand().note(now, now - yielded);
    }
    return true;
  }
  void end() { last_ = Clock::now() - began_; }

 private:
  using Clock = std::chrono::steady_clock;

  const Clock::duration look_;
  const Clock::duration soon_;
  Clock::time_point began_;
  Clock::duration last_{};
};

}  // namespace brickfs
