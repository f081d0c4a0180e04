// SPDX-License-Identifier: Apache-2.0
// One entry of FUSE over io_uring: the kernel puts a request into its memory, takes the reply from there, and in the
// same step puts the next one (fs/fuse/serve/uring.h). It has one queue for each CPU, with any number of entries;
// requests of a CPU go to its queue. Forgets and interrupts go on coming through /dev/fuse.
//
// Threads: made by any; then one at a time, whoever serves it.
#pragma once

#include <liburing.h>
#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "fs/fuse/protocol/request.h"
#include "transport/base/result.h"
#include "transport/volume/volume_client.h"

namespace brickfs {

class FuseUringQueue;

class FuseUringRequest final : public FuseRequest {
 public:
  // All must outlive it. Once a request that was put aside is answered, the entry is left to a worker of `workers`.
  // ENOMEM.
  static Result<std::unique_ptr<FuseUringRequest>> make(VolumeSet& volume, KernelCache& cache,
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

}  // namespace brickfs
