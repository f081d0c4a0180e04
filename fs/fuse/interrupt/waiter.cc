// SPDX-License-Identifier: Apache-2.0
#include "fs/fuse/interrupt/waiter.h"

#include <utility>

namespace brickfs {

void FuseWaiter::begin(uint64_t unique, uint32_t thread) {
  MutexLock lock(mutex_);
  unique_ = unique;
  thread_ = thread;
  aside_ = false;
  asked_ = signalled_ = false;
  together_ = nullptr;
  interruption_.clear();
}

void FuseWaiter::end() {
  MutexLock lock(mutex_);
  unique_ = 0;
  aside_ = false;
  together_ = nullptr;
  interruption_.clear();
}

void FuseWaiter::join(Interruption* together) {
  MutexLock lock(mutex_);
  together_ = together;
  if (together != nullptr && interruption_.raised()) together->raise();
}

bool FuseWaiter::set_aside() {
  MutexLock lock(mutex_);
  aside_ = unique_ != 0 && !interruption_.raised();
  return aside_;
}

bool FuseWaiter::take_up() {
  MutexLock lock(mutex_);
  aside_ = false;
  return unique_ != 0;
}

std::optional<FuseWaiter::Request> FuseWaiter::look() {
  MutexLock lock(mutex_);
  const uint64_t seen = std::exchange(seen_, unique_);
  if (unique_ == 0) return std::nullopt;
  return Request{unique_, thread_, asked_, seen == unique_, interruption_.raised()};
}

bool FuseWaiter::ask(uint64_t unique) {
  MutexLock lock(mutex_);
  if (unique_ != unique) return false;
  asked_ = true;
  return true;
}

bool FuseWaiter::sleeps_through(uint64_t unique, bool signal) {
  MutexLock lock(mutex_);
  return unique_ == unique && std::exchange(signalled_, signal) && signal;
}

void FuseWaiter::interrupt(uint64_t unique, const std::function<void()>& answer) {
  MutexLock lock(mutex_);
  if (unique_ != unique) return;
  if (aside_) {
    answer();
    unique_ = 0;
    return;
  }
  interruption_.raise();
  if (together_ != nullptr) together_->raise();
}

}  // namespace brickfs
