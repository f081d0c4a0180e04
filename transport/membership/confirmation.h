// SPDX-License-Identifier: Apache-2.0
// Until when what a place answers counts. Docs: docs/recovery.md, "Membership".
//
// A client that reads from one brick cannot see that another client has taken the volume over by others. So what it has
// read counts only as long as nobody can have done that without its knowing: every brick that may be believed has been
// heard of lately (a lease lasts from then on), or the map was asked, and says what it said.
//
// Threads: any.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>

#include "transport/brick/limits.h"

namespace brickfs {

class Confirmation {
 public:
  using Clock = std::chrono::steady_clock;
  // So long at most: half of a lease, since those who are asked seldom are.
  static constexpr std::chrono::milliseconds kLasts = limits::kLease / 2;

  // What is read until now counts, and until `more` from now.
  bool holds(std::chrono::milliseconds more = {}) const {
    return (Clock::now() + more).time_since_epoch().count() < until_.load();
  }
  // All bricks that may be believed are there at `now`; what was answered longest ago was asked for at `known_at`.
  void all_heard(Clock::time_point now, Clock::time_point known_at) {
    until_ = std::min(now + kLasts, known_at + kKnownFor).time_since_epoch().count();
  }
  // The map is as it was; it was asked at `asked`.
  void map_unchanged(Clock::time_point asked) {
    const int64_t until = (asked + kLasts).time_since_epoch().count();
    int64_t before = until_.load();
    while (before < until && !until_.compare_exchange_weak(before, until)) {
    }
  }
  void end() { until_ = 0; }

 private:
  // A lease lasts limits::kLease from when the brick has heard of us: not before what it has answered was sent.
  static constexpr std::chrono::milliseconds kKnownFor = limits::kLease - std::chrono::milliseconds(1'000);
  static_assert(kLasts + limits::kKeepAlive + std::chrono::milliseconds(1'500) < kKnownFor);

  std::atomic<int64_t> until_{0};  // of Clock
};

}  // namespace brickfs
