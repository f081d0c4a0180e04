// SPDX-License-Identifier: Apache-2.0
#include "transport/tcp/frame.h"

#include <algorithm>
#include <array>

namespace brickfs::tcp {
namespace {

constexpr size_t kFirstPiece = 8 * kKiB;  // of a body

}  // namespace

Status send_frame(int fd, const wire::CallHeader& header, std::span<const std::byte> body) {
  std::array<iovec, 2> parts = {to_iovec(bytes_of(header)), to_iovec(body)};
  return send_all(fd, std::span(parts).first(body.empty() ? 1 : 2));
}

Result<Frame> receive_frame(int fd, Deadline deadline, size_t most_bytes) {
  Frame frame;
  TRY(receive_before(fd, std::as_writable_bytes(std::span(&frame.header, 1)), deadline));
  if (frame.header.length_bytes > most_bytes) return Error(EPROTO, "frame is too long");
  // It grows as it comes: who names a length alone takes no memory.
  while (frame.body.size() < frame.header.length_bytes) {
    const size_t here = frame.body.size();
    frame.body.resize(std::min<size_t>(frame.header.length_bytes, std::max(2 * here, kFirstPiece)));
    TRY(receive_before(fd, std::span(frame.body).subspan(here), deadline));
  }
  return frame;
}

Result<Answer> exchange(int fd, wire::Kind kind, uint64_t id, std::span<const std::byte> body, Deadline deadline) {
  wire::CallHeader header;
  header.length_bytes = static_cast<uint32_t>(body.size());
  header.kind = static_cast<uint16_t>(kind);
  header.id = id;
  TRY(send_frame(fd, header, body));
  Frame frame = TRY(receive_frame(fd, deadline));
  if (frame.header.kind != (header.kind | wire::kReplyBit) || frame.header.id != id ||
      frame.header.status > kHighestErrno) {
    return Error(EPROTO, "answer to another call");
  }
  return Answer{frame.header.status, std::move(frame.body)};
}

}  // namespace brickfs::tcp
