// SPDX-License-Identifier: Apache-2.0
// Time since the machine was started, which goes on while it sleeps, unlike std::chrono::steady_clock's.
#pragma once

#include <chrono>
#include <cstdint>
#include <ctime>

namespace brickfs {

struct BootClock {
  using rep = int64_t;
  using period = std::nano;
  using duration = std::chrono::nanoseconds;
  using time_point = std::chrono::time_point<BootClock>;
  static constexpr bool is_steady = true;

  static time_point now() {
    timespec now{};
    clock_gettime(CLOCK_BOOTTIME, &now);
    return time_point(std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec));
  }
};

}  // namespace brickfs
