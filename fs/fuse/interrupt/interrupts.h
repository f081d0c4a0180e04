// SPDX-License-Identifier: Apache-2.0
// Ends requests whose asker was killed, or got a signal while the brick is away: a thread looks at those that take
// long. docs/decisions, 51.
//
// The kernel says so (FUSE_INTERRUPT) only of requests that a thread waits for by itself: not of asynchronous ones, as
// which it makes direct transfers and read-ahead, nor to a daemon none of whose threads reads. So the asker's pending
// signals are looked at, too, which /proc tells. Who is killed is let go in any case. SIGINT, SIGTERM and SIGQUIT that
// a program handles end only what waits for a brick that is away or silent, and other signals that it handles nothing:
// programs do not expect that a signal ends the work on a file.
//
// Threads: any.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string_view>
#include <thread>
#include <vector>

#include "fs/fuse/interrupt/waiter.h"
#include "transport/base/mutex.h"
#include "transport/volume/volume_set.h"

namespace brickfs {

// What the signals that wait for a thread do to it.
// kHandled: one that tells it to end and that it handles; of other handled ones it is kNone.
enum class PendingSignal { kNone, kHandled, kFatal, kUnknown };
// `status`: its /proc/.../status.
PendingSignal pending_signal(std::string_view status);

class FuseInterrupts {
 public:
  // `volume` outlives it. `look`: called now and then from its thread, while requests linger.
  FuseInterrupts(VolumeSet& volume, std::function<void()> look);
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

  VolumeSet& volume_;
  const std::function<void()> look_;
  Mutex mutex_;
  CondVar changed_;
  std::vector<FusePlace*> places_ ABSL_GUARDED_BY(mutex_);
  bool asked_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace brickfs
