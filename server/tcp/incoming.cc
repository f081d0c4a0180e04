// SPDX-License-Identifier: Apache-2.0
#include "server/tcp/incoming.h"

#include <algorithm>
#include <cstring>

#include "transport/tcp/socket.h"

namespace brickfs {
namespace {

bool is_valid(const wire::TransferHeader& header) {
  return (header.kind == wire::kReadTransfer || header.kind == wire::kWriteTransfer) && header.length_bytes > 0 &&
         header.length_bytes <= limits::kTransferBytes;
}

}  // namespace

Result<wire::TransferHeader> TcpIncoming::next() {
  wire::TransferHeader header;
  if (!holds(sizeof(header))) TRY(fill(sizeof(header), small_ ? ahead_.size() : sizeof(header)));
  std::memcpy(&header, ahead_.data() + begin_, sizeof(header));
  begin_ += sizeof(header);
  if (!is_valid(header)) return Error(EPROTO, "malformed transfer");
  small_ = header.kind == wire::kReadTransfer || header.length_bytes < ahead_.size() / 2;
  return header;
}

// Until so many bytes are there.
Status TcpIncoming::fill(size_t least, size_t most) {
  std::memmove(ahead_.data(), ahead_.data() + begin_, end_ - begin_);
  end_ -= begin_;
  begin_ = 0;
  while (end_ < least) {
    const iovec part = tcp::to_iovec(std::span(ahead_).subspan(end_, most - end_));
    const auto got = receiver_.receive_some(stream_, std::span(&part, 1), true);
    if (got.code() == EAGAIN && end_ == 0) continue;
    if (got.code() == EAGAIN) return Error(ETIMEDOUT, "peer stopped in the middle of a request");
    end_ += TRY(got);
  }
  return {};
}

Status TcpIncoming::take(std::span<std::byte> bytes) {
  const size_t here = std::min(bytes.size(), end_ - begin_);
  std::memcpy(bytes.data(), ahead_.data() + begin_, here);
  begin_ += here;
  return here == bytes.size() ? Status() : stream_.receive_all(bytes.subspan(here));
}

Status TcpIncoming::discard(size_t bytes) {
  std::array<std::byte, 16 * kKiB> scratch;
  while (bytes > 0) {
    const size_t now = std::min(bytes, scratch.size());
    TRY(take(std::span(scratch).first(now)));
    bytes -= now;
  }
  return {};
}

}  // namespace brickfs
