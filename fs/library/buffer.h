// SPDX-License-Identifier: Apache-2.0
// Registered memory, and what of this process's memory a call names.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <span>

#include "absl/container/inlined_vector.h"
#include "fs/library/brickfs.h"
#include "fs/library/call.h"
#include "transport/brick/brick.h"

struct brickfs_buffer {
  brickfs_buffer(std::byte* memory, size_t bytes, bool is_ours, brickfs::library::Children& of)
      : data(memory), length(bytes), ours(is_ours), owner(of) {
    owner.add();
  }
  ~brickfs_buffer();
  brickfs_buffer(const brickfs_buffer&) = delete;
  brickfs_buffer& operator=(const brickfs_buffer&) = delete;

  std::byte* const data;
  const size_t length;
  const bool ours;
  brickfs::library::Children& owner;  // counts this
  brickfs::RegisteredMemory registration;
  mutable std::atomic<unsigned> under_way{0};  // requests of queues that name it
};

namespace brickfs::library {

using Slices = absl::InlinedVector<LocalSlice, 2>;
using Register = std::function<Result<RegisteredMemory>(std::span<std::byte> memory)>;

// `owner` is whose the buffer is, to be known again.
Result<brickfs_buffer*> make_buffer(void* memory, size_t length, Children& owner, const Register& register_memory);

// Adds the bytes of one piece, at most 1 TiB. EFAULT, EINVAL (not within its buffer, or that is not of `owner`).
Status add_slices(Slices& slices, void* data, size_t length, const brickfs_buffer* buffer, const Children& owner);
// Of all pieces; at most BRICKFS_VECTORS_MAX, and 1 TiB.
Status add_slices(Slices& slices, const brickfs_vector* vectors, unsigned count, const Children& owner);
// Their total.
uint64_t bytes_of(const Slices& slices);

// The buffers that a request of a queue names, which are not freed meanwhile.
class BuffersInUse {
 public:
  BuffersInUse() = default;
  ~BuffersInUse() { clear(); }
  BuffersInUse(const BuffersInUse&) = delete;
  BuffersInUse& operator=(const BuffersInUse&) = delete;

  void add(const brickfs_request& request);  // whose vectors have been checked
  void clear();

 private:
  absl::InlinedVector<const brickfs_buffer*, 2> buffers_;
};

}  // namespace brickfs::library
