// SPDX-License-Identifier: Apache-2.0
// How far a long run is, on standard error: on a terminal a bar with rate and time left, else a line now and then.
// A run that is done within kSilent says nothing.
// Threads: none of its own.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "transport/base/log.h"
#include "transport/base/progress.h"

namespace brickfs {

class ProgressBar {
 public:
  ProgressBar();
  ~ProgressBar() { end(); }
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  // `done` of `total` of `what`; a new `what` begins a new bar.
  void show(std::string_view what, uint64_t done, uint64_t total);
  // What is waited for, in the place of a bar, where nothing can be counted.
  void say(std::string_view what);
  // Takes the bar away, so that something else may be printed.
  void end();

 private:
  void put(std::string line);

  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::seconds kSilent{3};

  const bool on_terminal_;
  Clock::time_point next_ = Clock::now() + kSilent;
  ProgressPace pace_;
  std::string last_line_;  // where there is no terminal: each is printed once
  bool drawn_ = false;
};

// A bar where standard error is a terminal, else lines in the log; both where that is not the log. The bar goes when
// all is done, or with the last copy of this.
Progress progress_for_people(LogTarget log);

// "[=====>    ]  52 %  12,345 of 23,456 blocks read  1,234/s  9 s left", at most `columns` wide. `rate`: of a second;
// 0: not known.
std::string progress_line(std::string_view what, uint64_t done, uint64_t total, double rate, size_t columns);

}  // namespace brickfs
