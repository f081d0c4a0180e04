// SPDX-License-Identifier: Apache-2.0
// Payload goes straight between the socket and the pinned block.
#include "server/tcp_transfers.h"

#include <algorithm>
#include <array>
#include <vector>

#include "transport/limits.h"
#include "transport/tcp/polling_receiver.h"
#include "transport/tcp/socket.h"
#include "transport/wire.h"

namespace brickfs {
namespace {

constexpr size_t kDiscardBytes = 64 * kKiB;

// A transfer may touch blocks as long as this lives.
class TransferScope {
 public:
  explicit TransferScope(TcpSession& session) : session_(session), begun_(session.begin_transfer()) {}
  ~TransferScope() {
    if (begun_) session_.end_transfer();
  }
  TransferScope(const TransferScope&) = delete;
  TransferScope& operator=(const TransferScope&) = delete;
  explicit operator bool() const { return begun_; }

 private:
  TcpSession& session_;
  const bool begun_;
};

bool is_valid(const wire::TransferHeader& header) {
  return (header.kind == wire::kReadTransfer || header.kind == wire::kWriteTransfer) && header.length_bytes > 0 &&
         header.length_bytes <= limits::kTransferBytes;
}

// Waits for the first byte as long as it takes; the rest must follow.
Result<wire::TransferHeader> receive_header(int fd, tcp::PollingReceiver& receiver) {
  wire::TransferHeader header;
  const auto bytes = std::as_writable_bytes(std::span(&header, 1));
  const iovec part = tcp::to_iovec(bytes);
  auto got = receiver.receive_some(fd, std::span(&part, 1), true);
  while (got.code() == EAGAIN) got = receiver.receive_some(fd, std::span(&part, 1), true);
  const size_t count = TRY(got);
  if (count < sizeof(header)) TRY(tcp::receive_all(fd, bytes.subspan(count)));
  if (!is_valid(header)) return Error(EPROTO, "malformed transfer");
  return header;
}

Status send_answer(int fd, const wire::TransferHeader& header, int code) {
  const wire::TransferAnswer answer{static_cast<uint32_t>(code), 0, header.id};
  iovec part = tcp::to_iovec(bytes_of(answer));
  return tcp::send_all(fd, std::span(&part, 1));
}

Status serve_read(int fd, ServerSession& session, const wire::TransferHeader& header) {
  const auto pin = session.pin(header.remote_key, header.remote_address, header.length_bytes, Access::kRead);
  if (!pin.ok()) return send_answer(fd, header, pin.code());
  const wire::TransferAnswer answer{0, header.length_bytes, header.id};
  std::array<iovec, 2> parts = {tcp::to_iovec(bytes_of(answer)), tcp::to_iovec(pin->bytes())};
  return tcp::send_all(fd, parts);
}

// A refused write's bytes are on their way all the same.
Status discard(int fd, size_t bytes) {
  std::vector<std::byte> scratch(std::min(bytes, kDiscardBytes));
  while (bytes > 0) {
    const size_t now = std::min(bytes, scratch.size());
    TRY(tcp::receive_all(fd, std::span(scratch).first(now)));
    bytes -= now;
  }
  return {};
}

Status serve_write(int fd, ServerSession& session, const wire::TransferHeader& header) {
  {
    const auto pin = session.pin(header.remote_key, header.remote_address, header.length_bytes, Access::kReadWrite);
    if (!pin.ok()) {
      TRY(discard(fd, header.length_bytes));
      return send_answer(fd, header, pin.code());
    }
    TRY(tcp::receive_all(fd, pin->bytes()));
  }  // unpinned before the answer: a commit or unmap that follows it finds the bytes settled
  return send_answer(fd, header, 0);
}

}  // namespace

void serve_transfers(int fd, TcpSession& session) {
  tcp::PollingReceiver receiver;
  while (true) {
    const auto header = receive_header(fd, receiver);
    if (!header.ok()) return;
    const TransferScope scope(session);
    if (!scope) return;
    ServerSession& server = session.server_session();
    server.touch();
    const Status status =
        header->kind == wire::kReadTransfer ? serve_read(fd, server, *header) : serve_write(fd, server, *header);
    if (!status.ok()) return;
  }
}

}  // namespace brickfs
