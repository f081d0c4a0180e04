// SPDX-License-Identifier: Apache-2.0
// A connection that carries messages, calls and their answers, for either end and every transport; docs/protocol.md,
// "Calls". The two ends take turns.
//
// Threads: one at a time, but shut_down() from any.
#pragma once

#include <poll.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "transport/base/result.h"
#include "transport/brick/wire.h"

namespace brickfs {

using Deadline = std::chrono::steady_clock::time_point;

struct Message {
  wire::CallHeader header;
  std::vector<std::byte> body;
};

// Errors: ENOTCONN: the connection is gone, or shut down; EPROTO: the peer does not keep to the protocol; ETIMEDOUT.
class Channel {
 public:
  virtual ~Channel() = default;

  // Room for bodies of so many bytes, both ways. Between receive() and send(), or before the first of them.
  virtual Status reserve(size_t body_bytes) = 0;
  virtual Status send(const wire::CallHeader& header, std::span<const std::byte> body) = 0;
  // Until something comes. ETIMEDOUT: nothing yet; it may be asked for again.
  virtual Status wait(Deadline deadline) = 0;
  // A whole message. After ETIMEDOUT the channel is of no more use, unless wait() says the same.
  virtual Result<Message> receive(Deadline deadline) = 0;
  // Until the peer has what was sent: before the connection is ended.
  virtual Status drain() { return {}; }
  // Has what there is of the peer besides its processor answer: if it does not, wait() gets ENOTCONN soon, as it does
  // not when it only waits.
  virtual Status probe() { return {}; }
  // What poll() is to look at for the peer's end; then peer_has_gone() says whether it was that. Does not wait.
  virtual pollfd watch() const = 0;
  virtual bool peer_has_gone() = 0;
  // Everybody who waits here, or will, gets ENOTCONN.
  virtual void shut_down() = 0;

 protected:
  Channel() = default;
};

// What a brick says to a call.
inline wire::CallHeader answer_header(const wire::CallHeader& to, int status) {
  wire::CallHeader header;
  header.kind = to.kind | wire::kReplyBit;
  header.status = static_cast<uint16_t>(status);
  header.id = to.id;
  return header;
}

}  // namespace brickfs
