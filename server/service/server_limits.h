// SPDX-License-Identifier: Apache-2.0
// Bounds of a brick's own, beside those that clients know (transport/brick/limits.h): what unauthenticated peers, and
// what one session, may take of it. docs/protocol.md, "Bounds".
#pragma once

#include <chrono>
#include <cstddef>

#include "transport/brick/limits.h"

namespace brickfs::limits {

// --- peers that have proved nothing. Of one address: an IPv6 network of 64 bits counts as one
constexpr size_t kTcpUnauthenticated = 512;  // half-open connections
constexpr size_t kTcpUnauthenticatedOfHost = 128;
constexpr size_t kVerbsUnauthenticated = 64;  // each takes a thread and a queue pair
constexpr size_t kVerbsUnauthenticatedOfHost = 16;
// Refusals of an address wait so long for each wrong proof that it sent lately; at most shorter than a client's
// patience. A right one does not wait.
constexpr std::chrono::milliseconds kDelayOfGuess{250};
constexpr std::chrono::milliseconds kDelayOfGuesses{2'000};
// From the last one on; and as long between two lines in the log about one address.
constexpr std::chrono::seconds kGuessRemembered{60};
constexpr size_t kGuessingHosts = 1024;  // are remembered
// Of the same line in the log, which peers cause.
constexpr std::chrono::seconds kBetweenLines{5};

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
