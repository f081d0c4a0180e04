// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/call_channel.h"

namespace brickfs::verbs {

Result<Answer> CallChannel::call(wire::Kind kind, uint64_t id, std::span<const std::byte> body,
                                 std::chrono::milliseconds timeout) {
  if (!turns_.take()) return Error(ENOTCONN, "connection is gone");
  auto answer = exchange(*channel_, kind, id, body, Clock::now() + timeout);
  if (turns_.give(!answer.ok())) channel_->shut_down();
  return answer;
}

void CallChannel::shut_down() {
  if (turns_.end()) channel_->shut_down();
}

}  // namespace brickfs::verbs
