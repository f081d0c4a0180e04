// SPDX-License-Identifier: Apache-2.0
// One place for a request in FUSE over io_uring: the kernel puts a request into its memory, takes the reply from there, and in
// the same step puts the next one (fs/fuse/ring.h). It has one queue for each CPU, with any number of entries; requests of a CPU go to its
// queue. Forgets and interrupts go on coming through /dev/fuse.
//
// Threads: made by any; then one at a time, whoever serves it.
#pragma once

#include <liburing.h>
#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "fs/fuse/buffers.h"
#include "fs/fuse/uring_abi.h"
#include "transport/base/result.h"
#include "transport/volume_client.h"

namespace brickfs {

class FuseRingEntry {
 public:
  // `volume` must outlive it. ENOMEM.
  static Result<std::unique_ptr<FuseRingEntry>> make(VolumeClient& volume, size_t queue);
  FuseRingEntry(const FuseRingEntry&) = delete;
  FuseRingEntry& operator=(const FuseRingEntry&) = delete;

  // The one whose request the calling thread is at; null if none's. Sets FuseBuffers::current(), too.
  static FuseRingEntry* current();
  static void set_current(FuseRingEntry* entry);

  size_t queue() const { return queue_; }
  FuseBuffers& buffers() const { return *buffers_; }

  // For FuseRing: what offers the entry to the kernel, with the answer to its request if it had one. The kernel has filled it.
  void put_command(io_uring_sqe& sqe);
  Status take_request();  // EPROTO

  // The request, until it is answered, as it comes from /dev/fuse: header, arguments, data in one piece.
  std::span<std::byte> message() const { return message_; }
  // Whether the request being served has that number. Then reply() takes the answer: header, then data, which may be in
  // the entry's own buffer.
  bool serves(uint64_t unique) const;
  void reply(std::span<const iovec> parts);

 private:
  enum class State { kMade, kWaiting, kServing, kAnswered };

  explicit FuseRingEntry(size_t queue) : queue_(static_cast<uint16_t>(queue)) {}
  void refuse();

  const uint16_t queue_;
  std::unique_ptr<FuseBuffers> buffers_;
  State state_ = State::kMade;
  FuseRingHeader header_{};
  std::span<std::byte> message_;
  iovec parts_[2] = {};
};

}  // namespace brickfs
