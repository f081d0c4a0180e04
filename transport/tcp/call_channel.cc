// SPDX-License-Identifier: Apache-2.0
#include "transport/tcp/call_channel.h"

namespace brickfs::tcp {

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
  dead_ = dead_ || dead;
  if (dead_) {
    tcp::shut_down(fd_.get());
    free_.notify_all();
  } else {
    free_.notify_one();
  }
}

Result<Answer> CallChannel::call(wire::Kind kind, std::span<const std::byte> body, std::chrono::milliseconds timeout) {
  if (!take_turn()) return Error(ENOTCONN, "connection is gone");
  auto answer = exchange(fd_.get(), kind, ++last_id_, body, Clock::now() + timeout);
  give_turn(!answer.ok());
  return answer;
}

bool CallChannel::busy() const {
  MutexLock lock(mutex_);
  return busy_;
}

void CallChannel::shut_down() {
  MutexLock lock(mutex_);
  dead_ = true;
  tcp::shut_down(fd_.get());
  free_.notify_all();
}

}  // namespace brickfs::tcp
