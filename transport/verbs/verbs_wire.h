// SPDX-License-Identifier: Apache-2.0
// What goes over an RDMA connection and nowhere else: the private data of connection requests and replies, and the
// bodies of the calls that only RDMA has. docs/protocol.md, "RDMA".
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "transport/brick/limits.h"
#include "transport/brick/wire.h"

namespace brickfs::verbs {

enum class Purpose : uint16_t { kCalls = 1, kLane = 2 };

using Ticket = std::array<std::byte, 16>;  // lets one connection in as a lane of a session

struct ConnectRequest {  // private data of a connection request: rdma_cm leaves 56 bytes for it
  uint32_t magic = wire::kMagic;
  uint16_t version = wire::kVersion;
  uint16_t purpose = 0;
  uint64_t features = wire::kFeatures;
  std::array<std::byte, 32> nonce{};  // of a lane: its ticket, then zeros
};
static_assert(sizeof(ConnectRequest) == 48 && offsetof(ConnectRequest, nonce) == 16);

struct ConnectReply {
  uint32_t magic = wire::kMagic;
  uint16_t version = wire::kVersion;
  uint16_t flags = 0;  // kReplyWindows
  uint64_t features = wire::kFeatures;
  Nonce nonce{};               // not of a lane
  uint64_t flush_address = 0;  // of a lane: 8 bytes that its reads may name, to flush the writes before them
  uint32_t flush_key = 0;
  uint32_t reserved = 0;
};
static_assert(sizeof(ConnectReply) == 64 && offsetof(ConnectReply, flush_address) == 48);
constexpr uint16_t kReplyWindows = 1;  // the lane's handles are memory windows, bound to its queue pair
constexpr size_t kFlushBytes = 8;

// The answer to LANE (which has no body).
struct LaneAnswer {
  uint32_t lane = 0;  // below limits::kLanesPerSession
  uint32_t reserved = 0;
  Ticket ticket{};
};
static_assert(sizeof(LaneAnswer) == 24);

// DETACH: when it is answered, no access through these lanes lands any more.
struct DetachCall {
  uint32_t lanes = 0;  // bit n: lane n
  uint32_t reserved = 0;
};
static_assert(sizeof(DetachCall) == 8);

using LaneKeys = std::array<uint32_t, limits::kLanesPerSession>;  // 0: not to be reached by that lane

// The answer to MAP is an array of these.
struct LaneHandle {
  uint64_t start = 0;  // of the blocks
  uint32_t count = 0;
  uint32_t id = 0;
  uint64_t address = 0;  // of the first byte, in the brick's address space
  LaneKeys keys{};
};
static_assert(sizeof(LaneHandle) == 56 && offsetof(LaneHandle, keys) == 24);
static_assert(limits::kBlocksPerCall * sizeof(LaneHandle) <= wire::kBodyBytes);

// KEYS: of the handles mapped before the lane was there, ascending by id.
struct KeysCall {
  uint32_t lane = 0;
  uint32_t after = 0;  // ids greater than this; 0 to begin
};
static_assert(sizeof(KeysCall) == 8);
struct KeyRecord {  // the answer to KEYS is an array of at most kKeysPerPage; fewer: there are no more
  uint32_t id = 0;
  uint32_t key = 0;
};
static_assert(sizeof(KeyRecord) == 8);
constexpr size_t kKeysPerPage = 8192;

// The reply's private data as rdma_cm delivers it: longer, padded with zeros. EPROTO.
Result<ConnectReply> decode_reply(std::span<const std::byte> data);
Result<ConnectRequest> decode_request(std::span<const std::byte> data);

}  // namespace brickfs::verbs
