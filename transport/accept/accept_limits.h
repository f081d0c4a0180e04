// SPDX-License-Identifier: Apache-2.0
// What peers that have proved nothing may take of whoever accepts connections. docs/protocol.md, "Bounds".
#pragma once

#include <chrono>
#include <cstddef>

namespace brickfs::limits {

// Of one address: an IPv6 network of 64 bits counts as one.
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

}  // namespace brickfs::limits
