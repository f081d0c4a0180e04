// SPDX-License-Identifier: Apache-2.0
// A Channel that carries calls, one at a time: the calling thread sends the call and waits for its answer.
// Threads: every method from any thread; callers wait for their turn.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "transport/base/mutex.h"
#include "transport/base/result.h"
#include "transport/brick/calls.h"
#include "transport/brick/channel.h"

namespace brickfs {

struct Reply {
  int status = 0;  // 0 or an errno, as the brick says
  std::vector<std::byte> body;
};

// One call, one answer. A peer that is silent for a while is probed, so that a path that died is noticed. An error says
// that the connection is of no more use.
Result<Reply> exchange(Channel& channel, calls::Kind kind, uint64_t id, std::span<const std::byte> body,
                       Deadline deadline);

class CallChannel {
 public:
  explicit CallChannel(std::unique_ptr<Channel> channel) : channel_(std::move(channel)) {}

  // An error (ENOTCONN, ETIMEDOUT, EPROTO) says that the channel is dead; every later call is ENOTCONN.
  Result<Reply> call(uint64_t id, const calls::Request& request, std::chrono::milliseconds timeout);
  // A call is under way, so that its caller learns of the connection's end.
  bool busy() const;
  bool dead() const;
  // How long ago the last answer came, if one has been waited for some time; else 0.
  std::chrono::milliseconds silence() const;
  // When the last call was sent that was answered; before the first one, when the channel was made.
  std::chrono::steady_clock::time_point known_at() const;
  // Wakes the caller, if there is one.
  void shut_down();
  Channel& channel() const { return *channel_; }

 private:
  bool take_turn();
  void give_turn(bool answered);

  const std::unique_ptr<Channel> channel_;

  mutable Mutex mutex_;
  CondVar free_;
  bool taken_ ABSL_GUARDED_BY(mutex_) = false;
  bool dead_ ABSL_GUARDED_BY(mutex_) = false;
  std::chrono::steady_clock::time_point taken_at_ ABSL_GUARDED_BY(mutex_);
  std::chrono::steady_clock::time_point heard_at_ ABSL_GUARDED_BY(mutex_) = std::chrono::steady_clock::now();
  std::chrono::steady_clock::time_point known_at_ ABSL_GUARDED_BY(mutex_) = std::chrono::steady_clock::now();
};

}  // namespace brickfs
