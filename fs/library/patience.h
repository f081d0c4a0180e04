// SPDX-License-Identifier: Apache-2.0
// How long the calls of one thread may wait, and that another thread may end them. An operation is told so by its
// Interruption, and ends with EINTR if it waits; what that means is told to the program.
//
// Threads: any, but begin() and end() by one.
#pragma once

#include <atomic>
#include <cerrno>
#include <chrono>
#include <optional>

#include "fs/library/brickfs.h"
#include "fs/operations/file_operations.h"
#include "transport/base/interruption.h"
#include "transport/base/mutex.h"
#include "transport/base/thread.h"

struct brickfs_patience {
  brickfs_patience() = default;
  ~brickfs_patience();
  brickfs_patience(const brickfs_patience&) = delete;
  brickfs_patience& operator=(const brickfs_patience&) = delete;

  // From here to end() it is the calling thread's. EBUSY: that has one, or this is a thread's. EAGAIN: no thread can be
  // started.
  brickfs::Status begin(std::optional<std::chrono::milliseconds> timeout);
  brickfs::Status end();  // EINVAL: it is not the calling thread's
  void cancel();
  bool begun() const;

  const brickfs::Interruption* interruption() const { return &interruption_; }
  int code() const { return code_.load(); }  // ETIMEDOUT, once the time is over first; else ECANCELED

 private:
  using Clock = std::chrono::steady_clock;

  void watch();
  void fire(int code) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  std::atomic<int> code_{ECANCELED};
  brickfs::Interruption interruption_;
  mutable brickfs::Mutex mutex_;
  brickfs::CondVar changed_;
  bool begun_ ABSL_GUARDED_BY(mutex_) = false;
  bool ends_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<Clock::time_point> deadline_ ABSL_GUARDED_BY(mutex_);
  std::optional<Clock::time_point> asleep_until_ ABSL_GUARDED_BY(mutex_);  // thread_; none: until it is told
  brickfs::Thread thread_;  // watches the clock, once there is something to watch for
};

namespace brickfs::library {

// Of the operations that the calling thread asks for.
OperationContext context();
// What EINTR of such an operation means: ETIMEDOUT or ECANCELED.
int interruption_code();
// The answer of a call, with that in the place of EINTR.
template <typename Answer>
Answer told(Answer answer) {
  return answer == -EINTR ? -interruption_code() : answer;
}

}  // namespace brickfs::library
