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

namespace brickfs::tcp {

// The header's length is that of the body.
Status send_frame(int fd, wire::CallHeader header, std::span<const std::byte> body);
// EPROTO: a body of more than `most_bytes`.
Result<Message> receive_frame(int fd, Deadline deadline, size_t most_bytes = wire::kBodyBytes);

class TcpChannel final : public Channel {
 public:
  explicit TcpChannel(UniqueFd fd) : fd_(std::move(fd)) {}

  Status reserve(size_t) override { return {}; }
  Status send(const wire::CallHeader& header, std::span<const std::byte> body) override {
    return send_frame(fd_.get(), header, body);
  }
  Status wait(Deadline deadline) override { return wait_readable(fd_.get(), deadline); }
  Result<Message> receive(Deadline deadline) override { return receive_frame(fd_.get(), deadline); }
  pollfd watch() const override { return {fd_.get(), POLLRDHUP, 0}; }
  bool peer_has_gone() override { return tcp::peer_has_gone(fd_.get()); }
  void shut_down() override { tcp::shut_down(fd_.get()); }

  int fd() const { return fd_.get(); }
  UniqueFd release() { return std::move(fd_); }  // for what is not messages

 private:
  UniqueFd fd_;
};

}  // namespace brickfs::tcp
