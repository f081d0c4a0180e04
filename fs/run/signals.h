// SPDX-License-Identifier: Apache-2.0
// Signals while a call goes by a queue. To a handler a call of the kernel's on a file has no middle: it runs before or
// after. So signals wait until the call is done, but for those that a thread's own instructions raise. Whoever waits
// long looks at what waits so, and is let go as the mount lets go who waits for the kernel (docs/decisions, 51).
//
// Threads: any.
#pragma once

#include <signal.h>

#include <chrono>

namespace brickfs::run {

// Of the calling thread, as long as this is there. Handlers of what came meanwhile run in the destructor, and may leave
// it by siglongjmp(3). One at a time.
class SignalsHeld {
 public:
  SignalsHeld();
  ~SignalsHeld();
  SignalsHeld(const SignalsHeld&) = delete;
  SignalsHeld& operator=(const SignalsHeld&) = delete;

 private:
  sigset_t before_;
};

// A signal that is held ends a wait that has lasted so long: one that ends the process; or after some more one of
// SIGINT, SIGTERM and SIGQUIT that the program handles.
bool ends_wait(std::chrono::milliseconds waited);

}  // namespace brickfs::run
