// SPDX-License-Identifier: Apache-2.0
// A request over io_uring: the kernel's entry that it comes in, and who serves it.
#pragma once

#include <liburing.h>
#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "fs/fuse/protocol/request.h"
#include "transport/base/mutex.h"
#include "transport/base/result.h"
#include "transport/volume/volume_client.h"

namespace brickfs {

class FuseUringQueue;

// One entry of FUSE over io_uring: the kernel puts a request into its memory, takes the reply from there, and in the
// same step puts the next one (fs/fuse/serve/uring.h). It has one queue for each CPU, with any number of entries;
// requests of a CPU go to its queue. Forgets and interrupts go on coming through /dev/fuse.
//
// Threads: made by any; then one at a time, whoever serves it.
class FuseUringRequest final : public FuseRequest {
 public:
  // All must outlive it. Once a request that was put aside is answered, the entry is left to a worker of `workers`.
  // ENOMEM.
  static Result<std::unique_ptr<FuseUringRequest>> make(VolumeAccess& volume, KernelCache& cache,
                                                        OperationCounters& counters, size_t queue,
                                                        FuseUringQueue& workers);

  // For FuseUring: what offers the entry to the kernel, with the answer to its request if it had one. The kernel has
  // filled it.
  void put_command(io_uring_sqe& sqe);
  Status take_request();  // EPROTO

 private:
  FuseUringRequest(std::unique_ptr<FuseBuffers> buffers, KernelCache& cache, OperationCounters& counters, size_t queue,
                   FuseUringQueue& workers)
      : FuseRequest(std::move(buffers), cache, counters), queue_(static_cast<uint16_t>(queue)), workers_(workers) {}
  // Keeps it for put_command().
  ssize_t send(std::span<const iovec> parts) override;
  Answer put_aside() override;

  const uint16_t queue_;
  FuseUringQueue& workers_;
  bool is_new_ = true;
  FuseUringHeader header_{};
  iovec parts_[2] = {};
};

// Who serves what of the requests that one CPU makes over io_uring. It has as many threads as entries.
//
// A request for few bytes goes to the *collector*, if there is one: the thread that is at such requests already, and
// serves what was passed to it meanwhile all at once. With the request goes its entry: under many requests at a time
// one thread comes to have most entries, and the others sleep. What else comes to a thread with more than one entry it
// leaves to one that has none. So no thread that is held up keeps requests from others, and who serves one request at a
// time does so by itself. docs/decisions, 46.
//
// Threads: any.
class FuseUringQueue {
 public:
  // A request for few bytes. True: the calling thread is the collector from now on. False: another one is, and has it.
  bool collect_or_pass(FuseUringRequest& entry);
  // For the collector: adds what was passed to it. False: there was nothing, and it is the collector no longer.
  bool take_passed(std::vector<FuseUringRequest*>& requests);
  // For the collector: it is that no longer; what was passed is left.
  void resign();

  // To a thread without an entry. False: after stop(), the caller has to serve it.
  bool leave(FuseUringRequest& entry);
  // For such a one: what was left. Null: nothing, after stop().
  FuseUringRequest* wait();
  void stop();

 private:
  Mutex mutex_;
  CondVar left_something_;
  bool collecting_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<FuseUringRequest*> passed_ ABSL_GUARDED_BY(mutex_);
  std::deque<FuseUringRequest*> left_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace brickfs
