// SPDX-License-Identifier: Apache-2.0
// What a listener's peers asked for and were refused, counted from its start on. Counting takes no lock.
//
// Threads: any.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "transport/base/latency_counters.h"
#include "transport/base/sharded_counters.h"
#include "transport/brick/brick.h"
#include "transport/brick/calls.h"

namespace brickfs {

// Why a connection, or the session that it asked for, was refused.
enum class Refused : size_t {
  kSecret,           // a wrong one
  kNoAdministrator,  // an administrator's call, and there is no such secret
  kMalformed,        // not the protocol
  kConnections,      // there are too many
  kUnauthenticated,  // an unauthenticated peer had to go for another
  kDescriptors,      // the process has no more
  kHeld,
  kNoVolume,
  kTakenOver,
  kSessions,  // the volume, or the session, has too many
  kOther,
  kCount,
};
constexpr std::array<const char*, static_cast<size_t>(Refused::kCount)> kRefusedNames = {
    "secret", "no_administrator", "malformed",  "connections", "strangers", "descriptors",
    "held",   "no_volume",        "taken_over", "sessions",    "other",
};
// Of an answer to OPEN or ATTACH.
constexpr Refused refused_with(int code) {
  switch (code) {
    case EACCES:
      return Refused::kSecret;
    case EPERM:
      return Refused::kNoAdministrator;
    case EPROTO:
      return Refused::kMalformed;
    case EBUSY:
      return Refused::kHeld;
    case ENOENT:
    case EIDRM:
      return Refused::kNoVolume;
    case ESTALE:
      return Refused::kTakenOver;
    case EUSERS:
    case ENOBUFS:
      return Refused::kSessions;
    default:
      return Refused::kOther;
  }
}

class PeerCounters {
 public:
  // Kinds that nobody knows are not counted.
  void call(calls::Kind kind, std::chrono::nanoseconds took, bool failed) {
    const auto number = static_cast<size_t>(kind);
    if (number > 0 && number <= calls::kKinds.size()) calls_.count(number - 1, took, failed, 0);
  }
  void refused(Refused why) { refused_.add(static_cast<size_t>(why), 1); }
  // Over TCP, where the brick's processor moves the bytes.
  void transferred(Direction direction, uint64_t bytes) {
    const size_t first = direction == Direction::kRead ? kReads : kWrites;
    transfers_.add(first, 1);
    transfers_.add(first + 1, bytes);
  }
  void admitted() { connections_.add(0, 1); }

  LatencyCounts calls_of(calls::Kind kind) const { return calls_.counts(static_cast<size_t>(kind) - 1); }
  uint64_t refused_for(Refused why) const { return refused_.sum(static_cast<size_t>(why)); }
  uint64_t transfers(Direction direction) const {
    return transfers_.sum(direction == Direction::kRead ? kReads : kWrites);
  }
  uint64_t transferred_bytes(Direction direction) const {
    return transfers_.sum((direction == Direction::kRead ? kReads : kWrites) + 1);
  }
  uint64_t admitted_so_far() const { return connections_.sum(0); }

 private:
  enum Transfers : size_t { kReads = 0, kWrites = 2, kTransferCounters = 4 };

  LatencyCounters<calls::kKinds.size()> calls_;
  ShardedCounters<static_cast<size_t>(Refused::kCount)> refused_;
  ShardedCounters<kTransferCounters> transfers_;
  ShardedCounters<1> connections_;
};

}  // namespace brickfs
