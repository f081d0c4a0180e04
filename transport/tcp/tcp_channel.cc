// SPDX-License-Identifier: Apache-2.0
#include "transport/tcp/tcp_channel.h"

#include <algorithm>
#include <array>

namespace brickfs::tcp {
namespace {

constexpr size_t kFirstPiece = 8 * kKiB;  // of a body

}  // namespace

Status send_frame(Stream& stream, wire::CallHeader header, std::span<const std::byte> body) {
  header.length_bytes = static_cast<uint32_t>(body.size());
  std::array<iovec, 2> parts = {to_iovec(bytes_of(header)), to_iovec(body)};
  return stream.send_all(std::span(parts).first(body.empty() ? 1 : 2));
}

Result<Message> receive_frame(Stream& stream, Deadline deadline, size_t most_bytes) {
  Message message;
  TRY(stream.receive_before(std::as_writable_bytes(std::span(&message.header, 1)), deadline));
  if (message.header.length_bytes > most_bytes) return Error(EPROTO, "frame is too long");
  // It grows as it comes: who names a length alone takes no memory.
  while (message.body.size() < message.header.length_bytes) {
    const size_t here = message.body.size();
    message.body.resize(std::min<size_t>(message.header.length_bytes, std::max(2 * here, kFirstPiece)));
    TRY(stream.receive_before(std::span(message.body).subspan(here), deadline));
  }
  return message;
}

}  // namespace brickfs::tcp
