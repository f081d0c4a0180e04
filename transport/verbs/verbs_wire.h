// SPDX-License-Identifier: Apache-2.0
// What goes over an RDMA connection and nowhere else: the private data of connection requests and replies.
// docs/protocol.md, "RDMA".
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "transport/brick/limits.h"
#include "transport/brick/wire.h"

namespace brickfs::verbs {

enum class Purpose : uint16_t { kCalls = 1, kQueuePair = 2 };

using calls::Ticket;

struct ConnectRequest {  // private data of a connection request: rdma_cm leaves 56 bytes for it
  uint32_t magic = wire::kMagic;
  uint16_t version = wire::kVersion;
  uint16_t purpose = 0;
  uint64_t features = wire::kFeatures;
  std::array<std::byte, 32> nonce{};  // of a queue pair: its ticket, then zeros
};
static_assert(sizeof(ConnectRequest) == 48 && offsetof(ConnectRequest, nonce) == 16);

struct ConnectReply {
  uint32_t magic = wire::kMagic;
  uint16_t version = wire::kVersion;
  uint16_t flags = 0;  // kReplyWindows
  uint64_t features = wire::kFeatures;
  Nonce nonce{};               // not of a queue pair
  uint64_t flush_address = 0;  // of a queue pair: 8 bytes that its reads may name, to flush the writes before them
  uint32_t flush_key = 0;
  uint32_t reserved = 0;
};
static_assert(sizeof(ConnectReply) == 64 && offsetof(ConnectReply, flush_address) == 48);
constexpr uint16_t kReplyWindows = 1;  // handles are memory windows, bound to this queue pair
constexpr size_t kFlushBytes = 8;

// The reply's private data as rdma_cm delivers it: longer, padded with zeros. EPROTO.
Result<ConnectReply> decode_reply(std::span<const std::byte> data);
Result<ConnectRequest> decode_request(std::span<const std::byte> data);

}  // namespace brickfs::verbs
