// SPDX-License-Identifier: Apache-2.0
// A thread that serves requests of one CPU over io_uring, one at a time or, if they are for few bytes, as many as there
// are.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "fs/fuse/cpu_choice.h"
#include "fs/fuse/joint_requests.h"
#include "fs/fuse/ring.h"
#include "fs/fuse/ring_entry.h"
#include "fs/fuse/ring_queue.h"
#include "fs/operations/filesystem.h"
#include "transport/base/result.h"

namespace brickfs {

class FuseRingWorker {
 public:
  // `queue` and `filesystem` outlive it.
  FuseRingWorker(Filesystem& filesystem, FuseRingQueue& queue, std::unique_ptr<FuseRing> ring,
                 std::unique_ptr<FuseRingEntry> entry, FuseCpuChoice cpu, FuseProcess process)
      : filesystem_(filesystem),
        queue_(queue),
        ring_(std::move(ring)),
        first_(std::move(entry)),
        cpu_(cpu),
        process_(std::move(process)) {}

  // On the thread, until the connection has ended (success), or `stopping`: the signal and FuseRingQueue::stop() have
  // it looked at. Then what it is at has been answered. An error: the kernel will not have such entries.
  Status serve(const std::atomic<bool>& stopping);
  bool busy() const { return busy_; }
  // The kernel has entries of its ring.
  bool offers() const { return ring_->offered() > 0; }
  // Called once by the thread, as soon as the kernel has its entry. Before serve().
  void set_on_offered(std::function<void()> callback) { on_offered_ = std::move(callback); }
  // For so long it has been waiting for the brick with several requests, while other entries of its ring are at the
  // kernel: what is in those nobody sees. 0: it has not.
  std::chrono::milliseconds hides_requests_for() const;

 private:
  using Clock = std::chrono::steady_clock;

  Status serve_some();
  Status serve_what_was_left();
  void sort();
  void part_with(FuseRingEntry& entry);
  Status serve_together();
  Status serve_alone(FuseRingEntry& entry);

  Filesystem& filesystem_;
  FuseRingQueue& queue_;
  const std::unique_ptr<FuseRing> ring_;
  const std::unique_ptr<FuseRingEntry> first_;  // which may be in another's ring
  FuseCpuChoice cpu_;
  const FuseProcess process_;
  std::function<void()> on_offered_;
  std::atomic<bool> busy_{false};
  std::atomic<Clock::duration> hides_since_{Clock::duration::zero()};  // of Clock; 0: it does not
  bool had_request_ = false;
  bool collecting_ = false;
  // Of the requests at hand:
  bool only_one_ = false;  // and the kernel has none of this thread's entries: nothing waits for it
  std::vector<FuseRingEntry*> requests_;
  std::vector<FuseRingEntry*> together_;
  std::vector<FuseRingEntry*> alone_;
};

}  // namespace brickfs
