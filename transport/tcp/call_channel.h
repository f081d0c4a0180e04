// SPDX-License-Identifier: Apache-2.0
// A connection that carries calls, one at a time: the calling thread sends the call and reads its answer.
// Threads: every method from any thread; callers wait for their turn.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>

#include "transport/base/result.h"
#include "transport/base/unique_fd.h"
#include "transport/brick/wire.h"
#include "transport/remote/call_turns.h"
#include "transport/tcp/frame.h"

namespace brickfs::tcp {

class CallChannel {
 public:
  explicit CallChannel(UniqueFd fd) : fd_(std::move(fd)) {}

  // An error (ENOTCONN, ETIMEDOUT, EPROTO) says that the channel is dead; every later call is ENOTCONN.
  Result<Answer> call(wire::Kind kind, std::span<const std::byte> body, std::chrono::milliseconds timeout);
  // A call is under way, so that its caller learns of the connection's end.
  bool busy() const { return turns_.taken(); }
  std::chrono::milliseconds silence() const { return turns_.silence(); }
  // Wakes the caller, if there is one.
  void shut_down();
  int fd() const { return fd_.get(); }

 private:
  const UniqueFd fd_;
  CallTurns turns_;
  uint64_t last_id_ = 0;  // of whoever has the turn
};

}  // namespace brickfs::tcp
