// SPDX-License-Identifier: Apache-2.0
// Messages as frames on a TCP connection, for both ends. docs/protocol.md, "Calls".
#pragma once

#include <atomic>
#include <cstddef>
#include <span>
#include <utility>

#include "transport/base/result.h"
#include "transport/base/unique_fd.h"
#include "transport/brick/channel.h"
#include "transport/tcp/socket.h"
#include "transport/tcp/stream.h"

namespace brickfs::tcp {

// The header's length is that of the body.
Status send_frame(Stream& stream, wire::CallHeader header, std::span<const std::byte> body);
// EPROTO: a body of more than `most_bytes`.
Result<Message> receive_frame(Stream& stream, Deadline deadline, size_t most_bytes = wire::kBodyBytes);

class TcpChannel final : public Channel {
 public:
  explicit TcpChannel(Stream stream) : stream_(std::move(stream)) {}
  explicit TcpChannel(UniqueFd fd) : TcpChannel(Stream(std::move(fd))) {}

  Status reserve(size_t) override { return {}; }
  Status send(const wire::CallHeader& header, std::span<const std::byte> body) override {
    return send_frame(stream_, header, body);
  }
  Status wait(Deadline deadline) override { return stream_.wait_readable(deadline); }
  Result<Message> receive(Deadline deadline) override { return receive_frame(stream_, deadline); }
  pollfd watch() const override { return {fd(), POLLRDHUP, 0}; }
  bool peer_has_gone() override { return tcp::peer_has_gone(fd()); }
  void shut_down() override { stream_.shut_down(); }

  int fd() const { return stream_.fd(); }
  Stream& stream() { return stream_; }
  Stream release() { return std::move(stream_); }  // for what is not messages

 private:
  Stream stream_;
};

}  // namespace brickfs::tcp
