// SPDX-License-Identifier: Apache-2.0
// TCP sockets as both ends of the tcp transport use them. Errors: ENOTCONN when the peer has closed or reset the
// connection, or it was shut down here; ETIMEDOUT.
#pragma once

#include <sys/uio.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "transport/base/mutex.h"
#include "transport/base/result.h"
#include "transport/base/unique_fd.h"

namespace brickfs::tcp {

using Clock = std::chrono::steady_clock;
using Deadline = Clock::time_point;

// ECONNREFUSED, EHOSTUNREACH (also: no such name), ETIMEDOUT. The socket is blocking and configured.
Result<UniqueFd> connect_to(const std::string& host, uint16_t port, Deadline deadline);
// EADDRINUSE, EADDRNOTAVAIL, EACCES ... Port 0: any.
Result<UniqueFd> listen_on(const std::string& host, uint16_t port);
Result<uint16_t> local_port(int fd);
// No delay, keep-alive probes, and a peer that takes or gives no byte for limits::kProgressTimeout fails the call.
void configure(int fd);
// Wakes everybody who sleeps in a call on this socket, here and at the peer.
void shut_down(int fd);
// It has closed its end, or the connection is dead. Does not wait.
bool peer_has_gone(int fd);
// The peer's end has not taken all that was sent.
bool has_unacknowledged(int fd);
// Something came that nobody has read.
bool has_unread(int fd);

// Since when no byte moves on a connection, either way: what the peers' ends of TCP have taken. Threads: any.
class StallClock {
 public:
  // How long that is, as far as it was looked at; 0 unless it is `under_way`, which somebody waits for.
  std::chrono::milliseconds look(int fd, bool under_way);

 private:
  Mutex mutex_;
  std::optional<Clock::time_point> since_ ABSL_GUARDED_BY(mutex_);
  uint64_t moved_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

// What is left of a list of memory to move. Changes the iovecs it was given.
class IoCursor {
 public:
  explicit IoCursor(std::span<iovec> parts) : parts_(parts) {}
  bool done() const { return parts_.empty(); }
  void advance(size_t bytes);
  std::span<iovec> parts() const { return parts_; }

 private:
  std::span<iovec> parts_;
};

iovec to_iovec(std::span<const std::byte> bytes);

// All of it, with limits::kProgressTimeout from one byte to the next.
Status send_all(int fd, std::span<iovec> parts);
Status receive_all(int fd, std::span<iovec> parts);
Status receive_all(int fd, std::span<std::byte> bytes);
// One call: at least one byte. EAGAIN when none came for limits::kProgressTimeout; with MSG_DONTWAIT, when none is
// there.
Result<size_t> receive_some(int fd, std::span<const iovec> parts, int flags = 0);
// At least nothing, without waiting.
Result<size_t> send_some(int fd, std::span<const iovec> parts);
// ETIMEDOUT at the deadline.
Status wait_readable(int fd, Deadline deadline);
Status wait_writable(int fd, Deadline deadline);
// All of it before the deadline, however slowly it comes.
Status receive_before(int fd, std::span<std::byte> bytes, Deadline deadline);

}  // namespace brickfs::tcp
