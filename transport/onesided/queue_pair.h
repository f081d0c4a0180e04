// SPDX-License-Identifier: Apache-2.0
// The client's end of what carries one-sided reads and writes, and what is under way on it: a queue pair of verbs, an
// endpoint of libfabric. Posts and polls, nothing else; a failure is for its owner to clear up (drain()).
//
// Threads: every call from any thread, drain() from one.
#pragma once

#include <poll.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "absl/container/inlined_vector.h"
#include "transport/base/result.h"
#include "transport/brick/brick.h"
#include "transport/onesided/handle_map.h"
#include "transport/onesided/memory_device.h"

namespace brickfs::onesided {

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

// Each stretch of the transfer's slices that the part covers, in their order: the slice, where in it, how many bytes.
template <typename Visit>
void for_each_piece(const Part& part, Visit&& visit) {
  uint32_t skip = part.offset;
  uint32_t left = part.length_bytes;
  for (const LocalSlice& slice : part.transfer->local) {
    if (left == 0) return;
    if (skip >= slice.length_bytes) {
      skip -= slice.length_bytes;
      continue;
    }
    const uint32_t now = std::min(left, slice.length_bytes - skip);
    visit(slice, slice.data + skip, now);
    left -= now;
    skip = 0;
  }
}

// Tells that there are completions, of one queue pair or several. Threads: every call from any thread.
class CompletionEvents {
 public:
  virtual ~CompletionEvents() = default;
  // What poll() is to look at; -1: there is nothing, and who sleeps looks every so often.
  virtual int fd() const = 0;
  // Takes those that are there; `disarmed` is told of which queue pairs, by number, they were.
  virtual void take(const std::function<void(size_t pair)>& disarmed) = 0;

 protected:
  CompletionEvents() = default;
};

class QueuePair {
 public:
  virtual ~QueuePair() = default;
  QueuePair(const QueuePair&) = delete;
  QueuePair& operator=(const QueuePair&) = delete;

  uint32_t number() const { return number_; }
  MemoryDevice& device() const { return device_; }
  const std::shared_ptr<CompletionEvents>& events() const { return events_; }
  uint32_t inline_bytes() const { return inline_bytes_; }
  // The queue pair has failed, or been told to: it wants drain().
  bool failed() const { return failed_.load(std::memory_order_acquire); }
  bool idle() const { return completed_.load(std::memory_order_acquire) == posted_.load(std::memory_order_acquire); }
  uint64_t completed() const { return completed_.load(std::memory_order_relaxed); }
  // Writes posted so far that a flush must cover, and how many of them a finished one has.
  uint64_t writes() const { return writes_.load(); }
  bool flushed(uint64_t writes) const { return flushed_.load() >= writes; }
  void note_flushed(uint64_t writes) {
    for (uint64_t known = flushed_.load(); known < writes && !flushed_.compare_exchange_weak(known, writes);) {
    }
  }

  // Posts some of the parts, from the first on; how many. 0: there is no room just now, poll() and try again.
  // ENOTCONN: the queue pair has failed; nothing (more) was posted.
  virtual Result<size_t> post(std::span<const Part> parts) = 0;

  // Takes completions off, as long as nobody else does; appends what is complete. The caller finish()es each, with 0.
  virtual void poll(Parts& done) = 0;
  // Lets the part's resources go and gives what it read to its slices; not yet its batch.
  void finish(const Part& part, int code);
  // The next completion will be told by events(); every poll() that begins now sees those before. Not of a queue pair
  // that has failed. Once, until disarm(): the event has come. Both of one thread at a time.
  virtual void arm() = 0;
  virtual void disarm() {}

  // From any thread, at any time: nothing is posted any more, everything under way comes back soon.
  virtual void fail() = 0;
  // Once failed: the queue pair is destroyed, and no local memory is touched through it any more. What had been posted
  // and not completed; `done` gets what had.
  virtual Parts drain(Parts& done) = 0;

 protected:
  QueuePair(uint32_t number, MemoryDevice& device, std::shared_ptr<CompletionEvents> events, uint32_t inline_bytes)
      : device_(device), events_(std::move(events)), number_(number), inline_bytes_(inline_bytes) {}

  // A staging buffer for the part, which a write's bytes are copied into; false: there is none just now.
  bool take_staging(Part& part) const;
  void give_staging_back(const Part& part) const;

  // Work requests, counted.
  std::atomic<bool> failed_{false};
  std::atomic<uint64_t> writes_{0};
  std::atomic<uint64_t> completed_{0};
  std::atomic<uint64_t> posted_{0};

 private:
  MemoryDevice& device_;
  const std::shared_ptr<CompletionEvents> events_;
  const uint32_t number_;
  const uint32_t inline_bytes_;
  std::atomic<uint64_t> flushed_{0};
};

}  // namespace brickfs::onesided
