// SPDX-License-Identifier: Apache-2.0
// While one lives, the threads that this thread starts begin with all signals blocked, and so do those that they start:
// signals are for the threads of the program.
#pragma once

#include <signal.h>

namespace brickfs::library {

class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

}  // namespace brickfs::library
