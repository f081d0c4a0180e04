// SPDX-License-Identifier: Apache-2.0
// Requests from /dev/fuse. The worker whose turn it is (fs/fuse/serve/device_queue.h) receives one; if that is for few
// bytes and more wait, also those, up to as many as go together. What is received needs room for the largest request
// there is, so these are copied, each to a small registered buffer.
//
// Threads: one.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "fs/fuse/interrupt/interrupts.h"
#include "fs/fuse/serve/device_queue.h"
#include "fs/fuse/serve/request_source.h"
#include "transport/base/short_wait.h"
#include "transport/volume/volume_set.h"

namespace brickfs {

class FuseDeviceRequest final : public FuseRequest {
 public:
  FuseDeviceRequest(std::unique_ptr<FuseBuffers> buffers, KernelCache& cache, OperationCounters& counters, int device)
      : FuseRequest(std::move(buffers), cache, counters), device_(device) {}

  // One is read, if there is one: into its own buffer. As read().
  ssize_t receive();
  // That of another one, which has none from then on.
  void take_over(FuseDeviceRequest& from) {
    free_ = false;
    FuseRequest::take_over(from, buffers().request());
  }
  // Of memory for small ones: nobody is at any.
  bool is_free() const { return free_; }
  void set_free() { free_ = true; }

 private:
  ssize_t send(std::span<const iovec> parts) override;
  Answer put_aside() override;

  const int device_;
  std::atomic<bool> free_{true};
};

class FuseDeviceSource final : public RequestSource {
 public:
  // All outlive it. `looks`: for the next request before it sleeps.
  FuseDeviceSource(VolumeSet& volume, KernelCache& cache, OperationCounters& counters, FuseDeviceQueue& queue,
                   FuseInterrupts& interrupts, int device, std::unique_ptr<FuseBuffers> buffers, bool looks);

  Status receive(std::vector<FuseRequest*>& requests) override;
  bool pass(FuseRequest& request) override;
  void begin_alone(const FuseRequest& request) override;
  Status give_back(FuseRequest& request) override;
  void close() override { queue_.hand_over(member_); }

 private:
  Status receive_one(bool looks);
  bool collect(std::vector<FuseRequest*>& requests);
  FuseDeviceRequest* free_small();

  VolumeSet& volume_;
  KernelCache& cache_;
  OperationCounters& counters_;
  FuseDeviceQueue& queue_;
  FuseInterrupts& interrupts_;
  const int device_;
  const bool looks_;
  ShortWait wait_{ShortWait::kForRequest};
  FuseDeviceRequest own_;                                  // where requests are received
  std::vector<std::unique_ptr<FuseDeviceRequest>> small_;  // once there were several
  FuseDeviceQueue::Member member_;                         // first to go
};

}  // namespace brickfs
