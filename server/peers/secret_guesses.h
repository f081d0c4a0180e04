// SPDX-License-Identifier: Apache-2.0
// Who sends wrong proofs is answered ever later, and fills no log.
//
// An answer waits whether its proof was right or wrong: else who guesses would take no answer at once for a no, and try
// the next. What waits keeps its place among the strangers, which are few for each address: so guesses at once do not
// help either.
//
// Threads: every call from any thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <map>

#include "server/peers/peer_address.h"
#include "transport/base/mutex.h"

namespace brickfs {

class SecretGuesses {
 public:
  using Clock = std::chrono::steady_clock;

  // From the call on until its answer.
  std::chrono::milliseconds delay(const PeerHost& host, Clock::time_point now);
  // A wrong proof. How many of this address a line in the log is to tell of now; 0: none is to be written.
  size_t failed(const PeerHost& host, Clock::time_point now);

 private:
  struct Record {
    size_t failures = 0;  // lately
    size_t unlogged = 0;
    Clock::time_point last;
    Clock::time_point logged;
  };
  void forget_old(Clock::time_point now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Mutex mutex_;
  std::map<PeerHost, Record> by_host_ ABSL_GUARDED_BY(mutex_);  // at most limits::kGuessingHosts
  Clock::time_point logged_ ABSL_GUARDED_BY(mutex_);            // of any
};

}  // namespace brickfs
