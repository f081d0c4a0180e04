// SPDX-License-Identifier: Apache-2.0
// A TCP connection's bytes, encrypted (TLS) or as they are. Errors as socket.h has them; EACCES and EPROTO of a
// handshake as tls.h.
//
// Threads: one receiving and one sending at a time; shut_down() and looking at it: any.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "transport/base/result.h"
#include "transport/base/unique_fd.h"
#include "transport/brick/proof.h"
#include "transport/tcp/socket.h"
#include "transport/tcp/tls.h"

namespace brickfs::tcp {

class Stream {
 public:
  explicit Stream(UniqueFd fd) : fd_(std::move(fd)) {}
  Stream(Stream&&) = default;
  Stream& operator=(Stream&&) = default;

  // For what is asked of the socket itself: who waits for it, how it is.
  int fd() const { return fd_.get(); }
  bool is_encrypted() const { return tls_ != nullptr; }

  // From now on it is. Nothing may have come that was not taken.
  Status encrypt(const Secret& secret, Deadline deadline, uint64_t rekey_bytes = kTlsRekeyBytes);
  // The server's end: without waiting, step by step.
  Status begin_to_encrypt(TlsSession::FindSecret find);
  Result<TlsSession::Step> go_on_encrypting() { return tls_->shake_hands(); }

  // As the functions of these names.
  Status send_all(std::span<iovec> parts);
  Result<size_t> send_some(std::span<const iovec> parts);
  Status receive_all(std::span<std::byte> bytes);
  enum class Wait { kForProgress, kNot };
  Result<size_t> receive_some(std::span<const iovec> parts, Wait wait = Wait::kForProgress);
  Status receive_before(std::span<std::byte> bytes, Deadline deadline);
  Status wait_readable(Deadline deadline);
  Status wait_writable(Deadline deadline) { return tcp::wait_writable(fd(), deadline); }
  bool has_unread() const { return (tls_ && tls_->holds_some()) || tcp::has_unread(fd()); }
  void shut_down() { tcp::shut_down(fd()); }

 private:
  UniqueFd fd_;
  std::unique_ptr<TlsSession> tls_;  // null: bytes as they are
};

}  // namespace brickfs::tcp
