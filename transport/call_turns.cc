// SPDX-License-Identifier: Apache-2.0
#include "transport/call_turns.h"

#include <utility>

namespace brickfs {

bool CallTurns::take() {
  MutexLock lock(mutex_);
  while (taken_ && !dead_) free_.wait(lock);
  if (dead_) return false;
  taken_ = true;
  return true;
}

bool CallTurns::give(bool dead) {
  MutexLock lock(mutex_);
  taken_ = false;
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

bool CallTurns::dead() const {
  MutexLock lock(mutex_);
  return dead_;
}

}  // namespace brickfs
