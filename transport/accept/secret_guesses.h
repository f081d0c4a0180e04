// SPDX-License-Identifier: Apache-2.0
// Who sends wrong proofs is refused ever later, has so many a second looked at, and fills no log.
//
// A right proof is answered at once, at the same address, too: else anybody at a client's address could keep it out. So
// who guesses may take no answer for a no, and try the next: that has its bound by the second.
//
// Threads: every call from any thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <map>

#include "transport/accept/peer_address.h"
#include "transport/base/mutex.h"

namespace brickfs {

class SecretGuesses {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr size_t kMostInSecond = 500;  // wrong proofs of one address

  // False: the address has sent too many wrong ones within this second, and this one is not looked at.
  bool may_try(const PeerHost& host, Clock::time_point now);
  // From the call on until its refusal.
  std::chrono::milliseconds delay(const PeerHost& host, Clock::time_point now);
  // A wrong proof. How many of this address a line in the log is to tell of now; 0: none is to be written.
  size_t failed(const PeerHost& host, Clock::time_point now);

 private:
  struct Record {
    size_t failures = 0;  // lately
    size_t unlogged = 0;
    size_t in_second = 0;
    Clock::time_point second;
    Clock::time_point last;
    Clock::time_point logged;
  };
  void forget_old(Clock::time_point now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Mutex mutex_;
  std::map<PeerHost, Record> by_host_ ABSL_GUARDED_BY(mutex_);  // at most limits::kGuessingHosts
  Clock::time_point logged_ ABSL_GUARDED_BY(mutex_);            // of any
};

// A wrong proof came: it is counted, and told in the log as often as one may.
void note_guess(SecretGuesses& guesses, const PeerAddress& peer);

}  // namespace brickfs
