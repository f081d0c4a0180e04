// SPDX-License-Identifier: Apache-2.0
// Requests from /dev/fuse: who of the workers receives them, and how.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "fs/fuse/interrupt/interrupts.h"
#include "fs/fuse/protocol/request.h"
#include "fs/fuse/serve/worker.h"
#include "transport/base/mutex.h"
#include "transport/base/short_wait.h"
#include "transport/base/unique_fd.h"
#include "transport/volume/volume_access.h"

namespace brickfs {

// Which of a mount's workers takes the next request from /dev/fuse: one at a time, the *receiver*. It stays that while
// it serves what it got, so that requests that come one after the other wake nobody else, and what waits by then is
// received together. It hands over where others can go on beside it; and if it is at a request for long, the *standby*,
// one of the idle workers, takes over. docs/decisions, 46.
//
// Threads: any, each with its Member.
class FuseDeviceQueue {
 public:
  // `device` must outlive it.
  explicit FuseDeviceQueue(int device);
  FuseDeviceQueue(const FuseDeviceQueue&) = delete;
  FuseDeviceQueue& operator=(const FuseDeviceQueue&) = delete;

  // A worker, as long as it lives.
  class Member {
   public:
    explicit Member(FuseDeviceQueue& queue) : queue_(queue) {}
    ~Member() { queue_.hand_over(*this); }
    Member(const Member&) = delete;
    Member& operator=(const Member&) = delete;

   private:
    friend class FuseDeviceQueue;
    FuseDeviceQueue& queue_;
    CondVar called_;
    FuseRequest* passed_ = nullptr;
  };

  struct Turn {
    FuseRequest* passed = nullptr;  // null: the worker is the receiver
    bool kept = false;              // and has been since its last turn
  };
  // The worker is at nothing: waits until it is the receiver or is passed a request. EINTR: after stop().
  Result<Turn> wait_for_turn(Member& member);
  // It has received something.
  void begin_turn(const Member& member);
  bool is_receiver(const Member& member) const { return receiver_ == &member; }
  // It is the receiver no longer, if it was: the first that has nothing to do is, for which an idle worker is woken.
  void hand_over(const Member& member);
  // To an idle worker. False: there is none.
  bool pass(FuseRequest& request);
  // A request is there to be received.
  bool has_more() const;
  // Waits until that is so, or stop().
  void wait_for_more() const;
  bool is_stopping() const { return stopping_; }
  void stop();

 private:
  Member* take_idle() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void stand_by(Member& member, MutexLock& lock) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool takes_turn(const Member& member) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool is_called(const Member& member) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const int device_;
  UniqueFd stopped_;  // eventfd
  std::atomic<bool> stopping_{false};
  std::atomic<const Member*> receiver_{nullptr};  // changed under the mutex
  std::atomic<uint64_t> turn_{0};                 // of the receiver: odd while it serves
  std::atomic<bool> standby_sleeps_{false};       // until something is received

  Mutex mutex_;
  std::vector<Member*> idle_ ABSL_GUARDED_BY(mutex_);  // but for the standby; latest last
  Member* standby_ ABSL_GUARDED_BY(mutex_) = nullptr;
};

// Requests from /dev/fuse. The worker whose turn it is (FuseDeviceQueue) receives one; if that is for few
// bytes and more wait, also those, up to as many as go together. What is received needs room for the largest request
// there is, so these are copied, each to a small registered buffer.
//
// Threads: one.
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
  // All outlive it. `polls`: for the next request before it sleeps.
  FuseDeviceSource(VolumeAccess& volume, KernelCache& cache, OperationCounters& counters, FuseDeviceQueue& queue,
                   FuseInterrupts& interrupts, int device, std::unique_ptr<FuseBuffers> buffers, bool polls);

  Status receive(std::vector<FuseRequest*>& requests) override;
  bool pass(FuseRequest& request) override;
  void begin_alone(const FuseRequest& request) override;
  Status give_back(FuseRequest& request) override;
  void close() override { queue_.hand_over(member_); }

 private:
  Status receive_one(bool polls);
  bool collect(std::vector<FuseRequest*>& requests);
  FuseDeviceRequest* free_small();

  VolumeAccess& volume_;
  const Durability durability_;
  KernelCache& cache_;
  OperationCounters& counters_;
  FuseDeviceQueue& queue_;
  FuseInterrupts& interrupts_;
  const int device_;
  const bool polls_;
  ShortWait wait_{ShortWait::kForRequest};
  FuseDeviceRequest own_;                                  // where requests are received
  std::vector<std::unique_ptr<FuseDeviceRequest>> small_;  // once there were several
  FuseDeviceQueue::Member member_;                         // first to go
};

}  // namespace brickfs
