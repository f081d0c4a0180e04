// SPDX-License-Identifier: Apache-2.0
// Requests whose asker was killed, or got a signal while the brick is away, end: who waits for the request at each
// place is known (FuseWaiter), and a thread looks at those that take long (FuseInterrupts). docs/decisions, 51.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <thread>
#include <vector>

#include "transport/base/interruption.h"
#include "transport/base/mutex.h"
#include "transport/volume/volume_access.h"

namespace brickfs {

// Who waits for the request at one place, and whether a signal has told him to end: then the request is interrupted
// (FuseInterrupts).
//
// Threads: begin() to end() from the thread that has the place; the rest from any.
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
  // FUSE_INTERRUPT has come for it.
  bool was_asked();
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

// Ends requests whose asker was killed, or got a signal while the brick is away: a thread looks at those that take
// long. docs/decisions, 51.
//
// The kernel says so (FUSE_INTERRUPT) only of requests that a thread waits for by itself: not of asynchronous ones, as
// which it makes direct transfers and read-ahead, nor to a daemon none of whose threads reads. So the asker's pending
// signals are looked at, too, which /proc tells. Who is killed is let go in any case. SIGINT, SIGTERM and SIGQUIT that
// a program handles end only what waits for a brick that is away or silent, and other signals that it handles nothing:
// programs do not expect that a signal ends the work on a file. While it is away nor does a thread wait that ends: its
// FLUSH is not to be interrupted, and no signal is kept for it any more.
//
// Threads: any.
// What the signals that wait for a thread do to it.
// kHandled: one that tells it to end and that it handles; of other handled ones it is kNone.
enum class PendingSignal { kNone, kHandled, kFatal, kUnknown };
// `status`: its /proc/.../status.
PendingSignal pending_signal(std::string_view status);

class FuseInterrupts {
 public:
  // `volume` outlives it. `look`: called now and then from its thread, while requests linger.
  FuseInterrupts(VolumeAccess& volume, std::function<void()> look);
  ~FuseInterrupts();
  FuseInterrupts(const FuseInterrupts&) = delete;
  FuseInterrupts& operator=(const FuseInterrupts&) = delete;

  // Requests there are looked at from now on. It outlives this.
  void watch(FusePlace& place);
  // FUSE_INTERRUPT has come for that request. False: it is at no place.
  bool ask(uint64_t unique);

 private:
  void run();
  bool look();  // true: some request lingers
  void interrupt(FusePlace& place, const FuseWaiter::Request& request);

  VolumeAccess& volume_;
  const std::function<void()> look_;
  Mutex mutex_;
  CondVar changed_;
  std::vector<FusePlace*> places_ ABSL_GUARDED_BY(mutex_);
  bool asked_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace brickfs
