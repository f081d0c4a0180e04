// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/greet.h"

#include <algorithm>

#include "transport/brick/limits.h"

namespace brickfs::verbs {
namespace {

Deadline earlier(Deadline latest, std::chrono::milliseconds patience) {
  return std::min<Deadline>(latest, Clock::now() + patience);
}

}  // namespace

Result<Greeted<MessageChannel>> greet(const HostPort& address, Deadline latest) {
  const Deadline connected_by = earlier(latest, limits::kConnectTimeout);
  CmId id = TRY(find_path(address, connected_by));
  const DeviceFacts facts = TRY(look_at(id.id->verbs));
  Greeted<MessageChannel> greeted;
  greeted.channel = TRY(MessageChannel::make(std::move(id), wire::kBodyBytes, false));
  ConnectRequest request;
  request.purpose = static_cast<uint16_t>(Purpose::kCalls);
  request.nonce = random_nonce();
  const ConnectReply reply = TRY(connect(greeted.channel->id(), request, facts, connected_by));
  greeted.nonces = {request.nonce, reply.nonce, request.features, reply.features};
  greeted.deadline = earlier(latest, limits::kHandshakeTimeout);
  return greeted;
}

}  // namespace brickfs::verbs
