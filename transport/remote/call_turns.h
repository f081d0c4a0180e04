// SPDX-License-Identifier: Apache-2.0
// The turns of those who use a connection for calls, one at a time, until the connection is dead. Threads: any.
#pragma once

#include <chrono>

#include "transport/base/mutex.h"

namespace brickfs {

class CallTurns {
 public:
  // Waits for one's turn. False: the connection is dead.
  bool take();
  // Precondition: take() was true. True: it is dead by that, and its owner shuts it down.
  bool give(bool dead);
  // It is dead, whoever has the turn. True: it was not before.
  bool end();
  bool taken() const;
  bool dead() const;
  // How long ago the last answer came, if one has been waited for some time; else 0.
  std::chrono::milliseconds silence() const;

 private:
  mutable Mutex mutex_;
  CondVar free_;
  bool taken_ ABSL_GUARDED_BY(mutex_) = false;
  bool dead_ ABSL_GUARDED_BY(mutex_) = false;
  std::chrono::steady_clock::time_point taken_at_ ABSL_GUARDED_BY(mutex_);
  std::chrono::steady_clock::time_point heard_at_ ABSL_GUARDED_BY(mutex_) = std::chrono::steady_clock::now();
};

}  // namespace brickfs
