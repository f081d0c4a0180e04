// SPDX-License-Identifier: Apache-2.0
#include "fs/base/timespec.h"

#include <cstdint>

namespace brickfs {

timespec to_timespec(TimeNs time) {
  const int64_t ns = static_cast<int64_t>(time);
  int64_t seconds = ns / kNsPerSecond;
  int64_t rest = ns % kNsPerSecond;
  if (rest < 0) {
    rest += kNsPerSecond;
    --seconds;
  }
  return {.tv_sec = seconds, .tv_nsec = rest};
}

TimeNs to_time_ns(const timespec& time) {
  int64_t ns = 0;
  if (__builtin_mul_overflow(static_cast<int64_t>(time.tv_sec), kNsPerSecond, &ns) ||
      __builtin_add_overflow(ns, static_cast<int64_t>(time.tv_nsec), &ns)) {
    return TimeNs{time.tv_sec < 0 ? INT64_MIN : INT64_MAX};
  }
  return TimeNs{ns};
}

}  // namespace brickfs
