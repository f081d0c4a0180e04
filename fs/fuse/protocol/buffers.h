// SPDX-License-Identifier: Apache-2.0
// The memory of one place for requests: where the kernel's request is received, payload of a write included, and where
// the reply to a read is put together; over io_uring both are the same. Registered once with the volume, so that data
// leaves from and lands in it without a copy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "transport/base/result.h"
#include "transport/volume/volume_access.h"

namespace brickfs {

// Of one read or write request. The kernel sends a larger one as several at once, so that one is copied while another
// moves.
constexpr size_t kFuseTransferBytes = 512 * kKiB;
constexpr size_t kReadAheadBytes = 1 * kMiB;  // the kernel's, of a file that is read in order: some requests at once
// Requests for no more are served several at a time. Of more, each takes its own way at the same time.
constexpr size_t kFewBytes = 16 * kKiB;
constexpr size_t kSmallRequestBytes = kFewBytes + 4 * kKiB;  // with what comes before data

class FuseBuffers {
 public:
  // ENOMEM, or as Brick::register_memory.
  static Result<std::unique_ptr<FuseBuffers>> make(VolumeAccess& volume);
  // One buffer for both, with room before it for what precedes data in a request.
  static Result<std::unique_ptr<FuseBuffers>> make_shared(VolumeAccess& volume);
  // As make(), for requests of at most kSmallRequestBytes, and kFewBytes of data.
  static Result<std::unique_ptr<FuseBuffers>> make_small(VolumeAccess& volume);
  ~FuseBuffers();
  FuseBuffers(const FuseBuffers&) = delete;
  FuseBuffers& operator=(const FuseBuffers&) = delete;

  std::span<std::byte> request() const { return memory_.first(request_bytes_); }
  std::span<std::byte> reply() const { return memory_.last(reply_bytes_); }
  // Of memory within either of them.
  LocalSlice slice(std::span<std::byte> part) const;

 private:
  FuseBuffers(std::span<std::byte> memory, size_t request_bytes, size_t reply_bytes)
      : memory_(memory), request_bytes_(request_bytes), reply_bytes_(reply_bytes) {}
  static Result<std::unique_ptr<FuseBuffers>> map(VolumeAccess& volume, size_t bytes, size_t request_bytes,
                                                  size_t reply_bytes);

  std::span<std::byte> memory_;  // mapped
  const size_t request_bytes_;
  const size_t reply_bytes_;
  RegisteredMemory registration_;
};

}  // namespace brickfs
