// SPDX-License-Identifier: Apache-2.0
// Who waits for the request at one place, and whether a signal has told him to end: then the request is interrupted
// (fs/fuse/interrupt/interrupts.h).
//
// Threads: begin() to end() from the thread that has the place; the rest from any.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "transport/base/interruption.h"
#include "transport/base/mutex.h"

namespace brickfs {

class FuseWaiter {
 public:
  // The place has a request. `thread`: who asked, as the kernel numbers threads; 0: nobody, or nobody that we see.
  void begin(uint64_t unique, uint32_t thread);
  // It has been answered.
  void end();
  // Of the request. Not to be kept longer than that.
  const Interruption* interruption() const { return &interruption_; }
  // Raised with it: the thread serves it together with others. Null: no longer.
  void join(Interruption* together);
  // The thread does something else first: who interrupts the request meanwhile also answers it. False: it is
  // interrupted already, or answered.
  bool set_aside();
  // False: that was done.
  bool take_up();

  // --- for FuseInterrupts
  struct Request {
    uint64_t unique;
    uint32_t thread;
    bool asked;    // by FUSE_INTERRUPT
    bool lingers;  // was seen before
    bool raised;
  };
  std::optional<Request> look();
  bool ask(uint64_t unique);  // false: it is not here
  // Whether a signal waits for the thread now. True: it did the last time, too, so that the thread sleeps through it.
  bool sleeps_through(uint64_t unique, bool signal);
  // `answer`: called if it was set aside.
  void interrupt(uint64_t unique, const std::function<void()>& answer);

 private:
  Interruption interruption_;

  Mutex mutex_;
  uint64_t unique_ ABSL_GUARDED_BY(mutex_) = 0;  // 0: none
  uint32_t thread_ ABSL_GUARDED_BY(mutex_) = 0;
  bool asked_ ABSL_GUARDED_BY(mutex_) = false;
  bool aside_ ABSL_GUARDED_BY(mutex_) = false;
  bool signalled_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t seen_ ABSL_GUARDED_BY(mutex_) = 0;
  Interruption* together_ ABSL_GUARDED_BY(mutex_) = nullptr;
};

// Where a request is, and others after it.
class FusePlace {
 public:
  virtual FuseWaiter& waiter() = 0;
  // The request was set aside: it ends with EINTR. From another thread, the waiter is locked.
  virtual void answer_interrupted() = 0;

 protected:
  ~FusePlace() = default;
};

}  // namespace brickfs
