// SPDX-License-Identifier: Apache-2.0
// One place for a request in FUSE over io_uring: the kernel puts a request into its memory, takes the reply from there,
// and in the same step puts the next one (fs/fuse/ring.h). It has one queue for each CPU, with any number of entries;
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

#include "fs/fuse/place.h"
#include "fs/fuse/uring_abi.h"
#include "transport/base/result.h"
#include "transport/volume/volume_client.h"

namespace brickfs {

class FuseRingQueue;

class FuseRingEntry final : public FusePlace {
 public:
  // Both must outlive it. Once a request that was put aside is answered, the entry is left to a thread of `threads`.
  // ENOMEM.
  static Result<std::unique_ptr<FuseRingEntry>> make(VolumeClient& volume, size_t queue, FuseRingQueue& threads);

  // For FuseRing: what offers the entry to the kernel, with the answer to its request if it had one. The kernel has
  // filled it.
  void put_command(io_uring_sqe& sqe);
  Status take_request();  // EPROTO

  bool serves(uint64_t unique) const override { return state_ == State::kServing && this->unique() == unique; }
  // Keeps it for put_command().
  ssize_t send(std::span<const iovec> parts) override;
  std::function<void(const Answer&)> put_aside() override;
  // It is to be offered.
  bool is_answered() const { return state_ == State::kAnswered; }

 private:
  enum class State { kMade, kWaiting, kServing, kAnswered };

  FuseRingEntry(std::unique_ptr<FuseBuffers> buffers, size_t queue, FuseRingQueue& threads)
      : FusePlace(std::move(buffers)), queue_(static_cast<uint16_t>(queue)), threads_(threads) {}
  void refuse();

  const uint16_t queue_;
  FuseRingQueue& threads_;
  State state_ = State::kMade;
  FuseRingHeader header_{};
  iovec parts_[2] = {};
};

}  // namespace brickfs
