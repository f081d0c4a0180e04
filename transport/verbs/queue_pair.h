// SPDX-License-Identifier: Apache-2.0
// The client's queue pair for data, by RDMA READ and WRITE, its completion queue, and what is under way on it. Posts
// and polls, nothing else; a failure is for its owner to clear up (drain()).
//
// A queue pair completes its work requests in order, so only the last of a chain is signalled, and its completion is
// that of all before it. After a failure nothing is complete until the queue pair is in the error state and has given
// everything back.
//
// Threads: every call from any thread, drain() from one.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "transport/base/mutex.h"
#include "transport/base/result.h"
#include "transport/brick/brick.h"
#include "transport/brick/limits.h"
#include "transport/verbs/cm.h"
#include "transport/verbs/handle_map.h"
#include "transport/verbs/local_memory.h"

namespace brickfs::verbs {

// What one work request carries.
struct Part {
  enum class Way : uint8_t {
    kDirect,  // from and to the registered slices
    kInline,  // a small write, copied into the work request
    kStaged,  // through a staging buffer
    kFlush,   // a read that makes earlier writes visible; without a transfer
  };
  Batch* batch = nullptr;
  const Transfer* transfer = nullptr;
  Mapping* mapping = nullptr;
  uint32_t offset = 0;  // within the transfer
  uint32_t length_bytes = 0;
  Way way = Way::kDirect;
  uint32_t staging = 0;  // the buffer, of a staged part that is posted
};

using Parts = absl::InlinedVector<Part, 4>;  // most batches are one work request

class QueuePair {
 public:
  struct Opened {  // by a handshake
    CqPtr queue;
    CmId id;  // goes first; the queue pair's owner takes its channel, which goes last
    uint32_t number = 0;
    uint32_t inline_bytes = 0;
    ConnectReply reply;
  };
  // Makes the queue pair with this number in its session on `id`, before it is connected.
  static Result<Opened> make(CmId id, uint32_t number, ClientDevice& device, ibv_comp_channel* completions);
  // The number of the queue pair that an event on the completion channel is of, by its context.
  static size_t number_in(const void* context) { return reinterpret_cast<uintptr_t>(context); }

  QueuePair(Opened opened, ClientDevice& device, const LocalMemory& memory);
  QueuePair(const QueuePair&) = delete;
  QueuePair& operator=(const QueuePair&) = delete;

  uint32_t number() const { return number_; }
  ClientDevice& device() const { return device_; }
  uint32_t inline_bytes() const { return inline_bytes_; }
  // The queue pair has failed, or been told to: it wants drain().
  bool failed() const { return failed_.load(std::memory_order_acquire); }
  bool idle() const { return head_.load(std::memory_order_acquire) == tail_.load(std::memory_order_acquire); }
  uint64_t completed() const { return head_.load(std::memory_order_relaxed); }
  // Writes posted so far, and how many of them a finished flush has covered.
  uint64_t writes() const { return writes_.load(); }
  bool flushed(uint64_t writes) const { return flushed_.load() >= writes; }
  void note_flushed(uint64_t writes) {
    for (uint64_t known = flushed_.load(); known < writes && !flushed_.compare_exchange_weak(known, writes);) {
    }
  }

  // Posts some of the parts, from the first on; how many. 0: there is no room just now, poll() and try again.
  // ENOTCONN: the queue pair has failed; nothing (more) was posted.
  Result<size_t> post(std::span<const Part> parts);

  // Takes completions off, as long as nobody else does; appends what is complete. The caller finish()es each, with 0.
  void poll(Parts& done);
  // Lets the part's resources go and gives what it read to its slices; not yet its batch.
  void finish(const Part& part, int code);
  // The next completion will be told on the completion channel; every poll() that begins now sees those before. Not of
  // a queue pair that has failed. Once, until disarm(): the event has come. Both of one thread at a time.
  void arm();
  void disarm() { armed_ = false; }

  // From any thread, at any time: nothing is posted any more, everything under way comes back soon.
  void fail();
  // Once failed: the queue pair is destroyed, and no local memory is touched through it any more. What had been posted
  // and not completed; `done` gets what had.
  Parts drain(Parts& done);

 private:
  struct Chain;
  Part& part_at(uint64_t place) { return ring_[place % ring_.size()]; }
  size_t prepare(std::span<const Part> parts, size_t room, Chain& chain);
  bool prepare_one(Part part, Chain& chain);
  void take(std::span<const ibv_wc> completions, Parts& done) ABSL_EXCLUSIVE_LOCKS_REQUIRED(poll_mutex_);

  ClientDevice& device_;
  const LocalMemory& memory_;
  const uint32_t number_;
  const uint32_t inline_bytes_;
  const uint64_t flush_address_;
  const uint32_t flush_key_;
  std::array<std::byte, kFlushBytes> flush_into_{};

  std::atomic<bool> failed_{false};
  std::atomic<uint64_t> writes_{0};
  std::atomic<uint64_t> flushed_{0};
  // Work requests, counted: [head_, tail_) are under way, in ring_ modulo its size.
  std::atomic<uint64_t> head_{0};  // by whoever polls
  std::atomic<uint64_t> tail_{0};  // by whoever posts
  std::vector<Part> ring_;
  bool armed_ = false;

  Mutex post_mutex_;
  Mutex poll_mutex_;
  uint64_t returned_ ABSL_GUARDED_BY(poll_mutex_) = 0;  // every work request before this has come back, well or not

  // Gone once drained, which has both mutexes then. In the order of their making.
  MrPtr flush_region_;
  CqPtr queue_;
  CmIdPtr id_;  // with the queue pair
};

// For the log: what a completion says went wrong.
const char* describe(ibv_wc_status status);

}  // namespace brickfs::verbs
