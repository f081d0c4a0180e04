// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/call_channel.h"

namespace brickfs::verbs {

bool CallChannel::take_turn() {
  MutexLock lock(mutex_);
  while (busy_ && !dead_) free_.wait(lock);
  if (dead_) return false;
  busy_ = true;
  return true;
}

void CallChannel::give_turn(bool dead) {
  MutexLock lock(mutex_);
  busy_ = false;
  if (dead && !dead_) channel_->shut_down();
  dead_ = dead_ || dead;
  if (dead_) {
    free_.notify_all();
  } else {
    free_.notify_one();
  }
}

Result<Answer> CallChannel::call(wire::Kind kind, uint64_t id, std::span<const std::byte> body,
                                 std::chrono::milliseconds timeout) {
  if (!take_turn()) return Error(ENOTCONN, "connection is gone");
  auto answer = exchange(*channel_, kind, id, body, Clock::now() + timeout);
  give_turn(!answer.ok());
  return answer;
}

bool CallChannel::busy() const {
  MutexLock lock(mutex_);
  return busy_;
}

bool CallChannel::dead() const {
  MutexLock lock(mutex_);
  return dead_;
}

void CallChannel::shut_down() {
  MutexLock lock(mutex_);
  if (!dead_) channel_->shut_down();
  dead_ = true;
  free_.notify_all();
}

}  // namespace brickfs::verbs
