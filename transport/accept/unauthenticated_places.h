// SPDX-License-Identifier: Apache-2.0
// Places for peers that have proved nothing yet: few, and whoever comes always gets one, so that the oldest goes. So
// any number of half-open connections keeps nobody out, and they take nothing that sessions need.
//
// Threads: every call from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>

#include "transport/accept/peer_address.h"
#include "transport/base/mutex.h"

namespace brickfs {

class UnauthenticatedPlaces {
 public:
  using Number = uint64_t;  // ascending from 1 on
  struct Entered {
    Number number = 0;
    std::optional<Number> displaced;  // has no place any more, and must go
  };

  UnauthenticatedPlaces(size_t most, size_t most_of_host) : most_(most), most_of_host_(most_of_host) {}

  // The oldest of the same address goes if that has its share; else, if all are taken, the oldest of those addresses
  // that have most.
  Entered enter(const PeerHost& host);
  // It has proved what it must, or has gone. False: it had been displaced.
  bool leave(Number number);

 private:
  // Of the addresses with so many places.
  Number oldest_with(size_t places) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Number oldest_of(const PeerHost& host) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool erase(Number number) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const size_t most_;
  const size_t most_of_host_;

  Mutex mutex_;
  Number last_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<Number, PeerHost> places_ ABSL_GUARDED_BY(mutex_);  // so the oldest first
  std::map<PeerHost, size_t> of_host_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace brickfs
