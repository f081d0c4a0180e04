// SPDX-License-Identifier: Apache-2.0
#include "server/service/silence_watch.h"

#include "transport/brick/limits.h"

namespace brickfs {

SilenceWatch::~SilenceWatch() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

void SilenceWatch::run() {
  MutexLock lock(mutex_);
  while (!stopping_) {
    changed_.wait_for(lock, limits::kListenerTick);
    if (stopping_) return;
    lock.unlock();
    service_.expire_silent(std::chrono::steady_clock::now());
    lock.lock();
  }
}

}  // namespace brickfs
