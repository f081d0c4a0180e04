// SPDX-License-Identifier: Apache-2.0
#include "transport/remote/call_turns.h"

#include <utility>

namespace brickfs {
namespace {

using std::chrono::steady_clock;

constexpr std::chrono::milliseconds kAnswered{
    300};  // a brick that is well has answered by then, but for what its disk takes

}  // namespace

bool CallTurns::take() {
  MutexLock lock(mutex_);
  while (taken_ && !dead_) free_.wait(lock);
  if (dead_) return false;
  taken_ = true;
  taken_at_ = steady_clock::now();
  return true;
}

bool CallTurns::give(bool dead) {
  MutexLock lock(mutex_);
  taken_ = false;
  heard_at_ = steady_clock::now();
  const bool by_this = dead && !std::exchange(dead_, true);
  if (dead_) {
    free_.notify_all();
  } else {
    free_.notify_one();
  }
  return by_this;
}

bool CallTurns::end() {
  MutexLock lock(mutex_);
  free_.notify_all();
  return !std::exchange(dead_, true);
}

bool CallTurns::taken() const {
  MutexLock lock(mutex_);
  return taken_;
}

std::chrono::milliseconds CallTurns::silence() const {
  MutexLock lock(mutex_);
  const auto now = steady_clock::now();
  if (dead_ || !taken_ || now - taken_at_ < kAnswered) return {};
  return std::chrono::duration_cast<std::chrono::milliseconds>(now - heard_at_);
}

bool CallTurns::dead() const {
  MutexLock lock(mutex_);
  return dead_;
}

}  // namespace brickfs
