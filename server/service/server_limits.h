// SPDX-License-Identifier: Apache-2.0
// Bounds of a brick's own, beside those that clients know (transport/brick/limits.h): what
// one session may take of it. docs/protocol.md, "Bounds".
#pragma once

#include <chrono>
#include <cstddef>

#include "transport/brick/limits.h"

namespace brickfs::limits {

// --- calls
// So often a call that waits for others to be done with a volume looks whether its client is still there.
constexpr std::chrono::milliseconds kPeerLook{1'000};

// --- connections of peers that proved themselves, each of which takes a thread
constexpr size_t kConnectionsNeeded = 4;                            // by a session: calls, its keeper, transfers
constexpr size_t kConnectionsKept = kConnectionsNeeded * kVolumes;  // for holders, beside kConnections for all

// --- sessions
constexpr size_t kConnectionsPerSession = 32;  // a mount over TCP has 14, over RDMA two on each address
constexpr size_t kObservers = 64;              // of one volume
constexpr size_t kFollowers = 256;             // of one volume
constexpr size_t kMappingsOfFrame = 2;  // of a session, for each block of the brick's memory: one to read, one to write

}  // namespace brickfs::limits
