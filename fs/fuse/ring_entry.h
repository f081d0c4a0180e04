// SPDX-License-Identifier: Apache-2.0
// One place for a request in FUSE over io_uring: the kernel puts a request into its memory, takes the reply from there, and in
// the same step puts the next one. It has one queue for each CPU, with any number of entries; requests of a CPU go to its
// queue. Forgets and interrupts go on coming through /dev/fuse.
//
// Threads: made by any; then one serves it.
#pragma once

#include <liburing.h>
#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "fs/fuse/buffers.h"
#include "fs/fuse/uring_abi.h"
#include "transport/base/result.h"
#include "transport/volume_client.h"

namespace brickfs {

class FuseRingEntry {
 public:
  // Why there can be none on this machine, as a line for people with what to do about it; nothing if there can. `switch_on`:
  // where the kernel can but may not, allows it first (as root).
  static std::optional<std::string> obstacle(bool switch_on);
  // Of a connection. The kernel takes requests this way once each queue has an entry.
  static size_t queues();

  // `device` and `volume` must outlive it. EPERM, ENOMEM, ENOSYS: no io_uring for this process.
  static Result<std::unique_ptr<FuseRingEntry>> make(VolumeClient& volume, int device, size_t queue);
  ~FuseRingEntry();
  FuseRingEntry(const FuseRingEntry&) = delete;
  FuseRingEntry& operator=(const FuseRingEntry&) = delete;

  // The one that the calling thread serves; null if it serves none.
  static FuseRingEntry* current();
  static void set_current(FuseRingEntry* entry);

  size_t queue() const { return queue_; }
  FuseBuffers& buffers() const { return *buffers_; }

  // Hands the reply to the former request over and waits for the next, which comes as from /dev/fuse: header, arguments, data in
  // one piece. EINTR: a signal. ENOTCONN, ECANCELED ...: the connection has ended. Before the first request also what the
  // kernel has against such entries: it then goes back to /dev/fuse for all requests.
  Result<std::span<std::byte>> receive();
  bool had_request() const { return had_request_; }
  // Whether the request being served has that number. Then reply() takes the answer: header, then data, which may be in
  // the entry's own buffer.
  bool serves(uint64_t unique) const;
  void reply(std::span<const iovec> parts);

 private:
  enum class State { kMade, kWaiting, kServing, kAnswered };

  FuseRingEntry(int device, size_t queue) : device_(device), queue_(static_cast<uint16_t>(queue)) {}
  Status begin();
  Status enable();
  void post(FuseRingVerb verb);
  void refuse();
  Result<std::span<std::byte>> message();

  const int device_;
  const uint16_t queue_;
  std::unique_ptr<FuseBuffers> buffers_;
  io_uring ring_{};
  bool has_ring_ = false;
  State state_ = State::kMade;
  bool had_request_ = false;
  FuseRingHeader header_{};
  iovec parts_[2] = {};
};

}  // namespace brickfs
