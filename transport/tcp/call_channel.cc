// SPDX-License-Identifier: Apache-2.0
#include "transport/tcp/call_channel.h"

namespace brickfs::tcp {

Result<Answer> CallChannel::call(wire::Kind kind, std::span<const std::byte> body, std::chrono::milliseconds timeout) {
  if (!turns_.take()) return Error(ENOTCONN, "connection is gone");
  auto answer = exchange(fd_.get(), kind, ++last_id_, body, Clock::now() + timeout);
  if (turns_.give(!answer.ok())) tcp::shut_down(fd_.get());
  return answer;
}

void CallChannel::shut_down() {
  if (turns_.end()) tcp::shut_down(fd_.get());
}

}  // namespace brickfs::tcp
