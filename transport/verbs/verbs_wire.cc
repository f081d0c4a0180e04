// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/verbs_wire.h"

namespace brickfs::verbs {

Result<ConnectReply> decode_reply(std::span<const std::byte> data) {
  if (data.size() < sizeof(ConnectReply)) return Error(EPROTO, "what answers there is not a brick");
  const auto reply = load<ConnectReply>(data);
  if (reply.magic != wire::kMagic) return Error(EPROTO, "what answers there is not a brick");
  if (reply.version != wire::kVersion) return Error(EPROTO, "the brick speaks another protocol version");
  return reply;
}

Result<ConnectRequest> decode_request(std::span<const std::byte> data) {
  if (data.size() < sizeof(ConnectRequest)) return Error(EPROTO, "not a client of ours");
  const auto request = load<ConnectRequest>(data);
  if (request.magic != wire::kMagic) return Error(EPROTO, "not a client of ours");
  if (request.version != wire::kVersion) return Error(EPROTO, "another protocol version");
  if (request.purpose != static_cast<uint16_t>(Purpose::kCalls) &&
      request.purpose != static_cast<uint16_t>(Purpose::kQueuePair)) {
    return Error(EPROTO, "unknown purpose of a connection");
  }
  return request;
}

}  // namespace brickfs::verbs
