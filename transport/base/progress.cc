// SPDX-License-Identifier: Apache-2.0
#include "transport/base/progress.h"

#include <algorithm>
#include <chrono>

#include "transport/base/log.h"

namespace brickfs {
namespace {

using Clock = std::chrono::steady_clock;

class LogLines {
 public:
  void operator()(std::string_view what, uint64_t done, uint64_t total) {
    const auto now = Clock::now();
    const double rate = pace_.rate(what, done);
    if (now < next_) return;
    next_ = now + kBetween;
    const double left = rate > 0 ? static_cast<double>(total - std::min(done, total)) / rate : 0;
    log::info("{} of {} {}, {:.0f}/s, {:.0f} s left", done, total, what, rate, left);
  }

 private:
  static constexpr std::chrono::seconds kSilent{3};
  static constexpr std::chrono::seconds kBetween{5};

  Clock::time_point next_ = Clock::now() + kSilent;
  ProgressPace pace_;
};

}  // namespace

double ProgressPace::rate(std::string_view what, uint64_t done) {
  const auto now = Clock::now();
  if (what != what_) {
    what_ = what;
    began_ = now;
    began_at_ = done;
  }
  const double seconds = std::chrono::duration<double>(now - began_).count();
  return seconds > 0 ? static_cast<double>(done - std::min(began_at_, done)) / seconds : 0;
}

Progress progress_in_log() { return LogLines(); }

}  // namespace brickfs
