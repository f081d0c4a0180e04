// SPDX-License-Identifier: Apache-2.0
// A MessageChannel that carries calls, one at a time: the calling thread sends the call and waits for its answer.
// Threads: every method from any thread; callers wait for their turn.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>

#include "transport/base/result.h"
#include "transport/remote/call_turns.h"
#include "transport/verbs/message_channel.h"

namespace brickfs::verbs {

class CallChannel {
 public:
  explicit CallChannel(std::unique_ptr<MessageChannel> channel) : channel_(std::move(channel)) {}

  // An error (ENOTCONN, ETIMEDOUT, EPROTO) says that the channel is dead; every later call is ENOTCONN.
  Result<Answer> call(wire::Kind kind, uint64_t id, std::span<const std::byte> body, std::chrono::milliseconds timeout);
  // A call is under way, so that its caller learns of the connection's end.
  bool busy() const { return turns_.taken(); }
  bool dead() const { return turns_.dead(); }
  std::chrono::milliseconds silence() const { return turns_.silence(); }
  // Wakes the caller, if there is one.
  void shut_down();
  rdma_event_channel& events() const { return *channel_->id().channel; }

 private:
  const std::unique_ptr<MessageChannel> channel_;
  CallTurns turns_;
};

}  // namespace brickfs::verbs
