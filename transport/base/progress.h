// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace brickfs {

// Told, often, how far a long run is: `done` of `total` of what is being done ("blocks of the checkpoint read"). May be
// empty.
using Progress = std::function<void(std::string_view what, uint64_t done, uint64_t total)>;

// How fast a run gets on, since it began with what it is doing now.
class ProgressPace {
 public:
  // Of a second; 0: not known yet. Another `what` begins anew.
  double rate(std::string_view what, uint64_t done);

 private:
  std::string what_;
  std::chrono::steady_clock::time_point began_;  // with `what_`, at `began_at_`
  uint64_t began_at_ = 0;
};

// A line in the log every five seconds, with rate and time left; nothing of a run that is done within three.
// Threads: one at a time.
Progress progress_in_log();

}  // namespace brickfs
