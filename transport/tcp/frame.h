// SPDX-License-Identifier: Apache-2.0
// Calls and their answers as frames on a TCP connection, for both ends. docs/protocol.md, "Calls".
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "transport/base/result.h"
#include "transport/brick/wire.h"
#include "transport/tcp/socket.h"

namespace brickfs::tcp {

constexpr uint16_t kHighestErrno = 4095;  // that an answer may carry

struct Frame {
  wire::CallHeader header;
  std::vector<std::byte> body;
};

Status send_frame(int fd, const wire::CallHeader& header, std::span<const std::byte> body);
// EPROTO: a body of more than `most_bytes`.
Result<Frame> receive_frame(int fd, Deadline deadline, size_t most_bytes = wire::kBodyBytes);

struct Answer {
  int status = 0;  // 0 or an errno, as the brick says
  std::vector<std::byte> body;
};

// One call, one answer. An error says that the connection is of no more use.
Result<Answer> exchange(int fd, wire::Kind kind, uint64_t id, std::span<const std::byte> body, Deadline deadline);

}  // namespace brickfs::tcp
