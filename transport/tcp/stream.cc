// SPDX-License-Identifier: Apache-2.0
#include "transport/tcp/stream.h"

#include <sys/socket.h>

#include <cerrno>
#include <utility>

#include "transport/brick/limits.h"

namespace brickfs::tcp {

Status Stream::encrypt(const Secret& secret, Deadline deadline, uint64_t rekey_bytes) {
  auto tls = TRY(TlsSession::client(fd(), secret, rekey_bytes));
  while (true) {
    const auto step = TRY(tls->shake_hands());
    if (step == TlsSession::Step::kDone) break;
    TRY(step == TlsSession::Step::kReads ? tcp::wait_readable(fd(), deadline) : wait_writable(deadline));
  }
  tls_ = std::move(tls);
  return {};
}

Status Stream::begin_to_encrypt(TlsSession::FindSecret find) {
  tls_ = TRY(TlsSession::server(fd(), std::move(find)));
  return {};
}

Status Stream::send_all(std::span<iovec> parts) {
  if (!tls_) return tcp::send_all(fd(), parts);
  for (IoCursor left(parts); !left.done();) {
    const size_t sent = TRY(tls_->send(left.parts()));
    left.advance(sent);
    if (sent == 0 && !left.done()) TRY(wait_writable(Clock::now() + limits::kProgressTimeout));
  }
  return {};
}

Result<size_t> Stream::send_some(std::span<const iovec> parts) {
  return tls_ ? tls_->send(parts) : tcp::send_some(fd(), parts);
}

Status Stream::receive_all(std::span<std::byte> bytes) {
  if (!tls_) return tcp::receive_all(fd(), bytes);
  while (!bytes.empty()) {
    const iovec part = to_iovec(bytes);
    const auto got = receive_some(std::span(&part, 1));
    if (got.code() == EAGAIN) return Error(ETIMEDOUT, "peer stopped in the middle of a frame");
    bytes = bytes.subspan(TRY(got));
  }
  return {};
}

Result<size_t> Stream::receive_some(std::span<const iovec> parts, Wait wait) {
  if (!tls_) return tcp::receive_some(fd(), parts, wait == Wait::kNot ? MSG_DONTWAIT : 0);
  const Deadline until = Clock::now() + limits::kProgressTimeout;
  while (true) {
    auto got = tls_->receive(parts);
    if (got.code() != EAGAIN || wait == Wait::kNot) return got;
    if (const Status ready = tcp::wait_readable(fd(), until); !ready.ok())
      return ready.code() == ETIMEDOUT ? got : Result<size_t>(ready.error());
  }
}

Status Stream::receive_before(std::span<std::byte> bytes, Deadline deadline) {
  if (!tls_) return tcp::receive_before(fd(), bytes, deadline);
  while (!bytes.empty()) {
    const iovec part = to_iovec(bytes);
    const auto got = tls_->receive(std::span(&part, 1));
    if (got.code() == EAGAIN) {
      TRY(tcp::wait_readable(fd(), deadline));
      continue;
    }
    bytes = bytes.subspan(TRY(got));
  }
  return {};
}

Status Stream::wait_readable(Deadline deadline) {
  return tls_ && tls_->holds_some() ? Status() : tcp::wait_readable(fd(), deadline);
}

}  // namespace brickfs::tcp
