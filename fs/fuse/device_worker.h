// SPDX-License-Identifier: Apache-2.0
// A thread that serves requests from /dev/fuse, one at a time or, if they are for few bytes and others wait, several.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "fs/fuse/device_places.h"
#include "fs/fuse/device_queue.h"
#include "fs/fuse/interrupts.h"
#include "fs/fuse/joint_requests.h"
#include "fs/operations/filesystem.h"
#include "transport/base/result.h"

namespace brickfs {

class FuseDeviceWorker {
 public:
  // All outlive it. ENOMEM.
  static Result<std::unique_ptr<FuseDeviceWorker>> make(Filesystem& filesystem, FuseDeviceQueue& queue,
                                                        FuseInterrupts& interrupts, int device, FuseProcess process);

  // On the thread, until the connection has ended, or `stopping`: the signal and FuseDeviceQueue::stop() have it looked
  // at. Then what it is at has been answered. `goes`, if given, is asked after each request: true ends it, too.
  void serve(const std::atomic<bool>& stopping, const std::function<bool()>& goes = nullptr);
  bool busy() const { return busy_; }

 private:
  enum class Received { kRequest, kNothing, kEnd };

  FuseDeviceWorker(Filesystem& filesystem, FuseDeviceQueue& queue, FuseInterrupts& interrupts, int device,
                   std::unique_ptr<FuseBuffers> buffers, FuseProcess process)
      : filesystem_(filesystem),
        queue_(queue),
        interrupts_(interrupts),
        device_(device),
        own_(std::move(buffers)),
        process_(std::move(process)) {
    interrupts_.watch(own_);
  }
  Received receive(FuseDeviceQueue::Seat& seat);
  void serve_one(FuseDeviceQueue::Seat& seat);
  bool can_serve_together();
  void serve_together(FuseDeviceQueue::Seat& seat);
  FuseDevicePlace* collect(JointRequests& joint, std::vector<FuseDevicePlace*>& added);
  void serve_in_one_go(std::vector<FuseDevicePlace*> requests, FuseDeviceQueue::Seat& seat);
  void set_aside(const std::vector<FuseDevicePlace*>& requests, FuseDeviceQueue::Seat& seat);
  bool try_in_one_go(const std::vector<FuseDevicePlace*>& requests, std::vector<FuseDevicePlace*>& alone);
  void serve_alone(FuseDevicePlace& place, FuseDeviceQueue::Seat& seat);

  Filesystem& filesystem_;
  FuseDeviceQueue& queue_;
  FuseInterrupts& interrupts_;
  const int device_;
  FuseDevicePlace own_;                       // where requests are received
  std::unique_ptr<FuseDevicePlaces> others_;  // once it has served several at a time
  bool has_no_others_ = false;                // there can be none
  const FuseProcess process_;
  std::atomic<bool> busy_{false};
};

}  // namespace brickfs
