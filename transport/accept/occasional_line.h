// SPDX-License-Identifier: Apache-2.0
// For a line of the log that peers can cause as often as they like: written once in a while, with how often it was not.
// Threads: any.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <utility>

#include "transport/base/mutex.h"

namespace brickfs {

class OccasionalLine {
 public:
  using Clock = std::chrono::steady_clock;

  explicit OccasionalLine(Clock::duration every) : every_(every) {}

  // How often the line was left out since it was written last; empty: it is to be left out now, too.
  std::optional<uint64_t> due(Clock::time_point now = Clock::now()) {
    MutexLock lock(mutex_);
    if (written_ && now - *written_ < every_) {
      ++left_out_;
      return std::nullopt;
    }
    written_ = now;
    return std::exchange(left_out_, 0);
  }

 private:
  const Clock::duration every_;

  Mutex mutex_;
  std::optional<Clock::time_point> written_ ABSL_GUARDED_BY(mutex_);
  uint64_t left_out_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace brickfs
