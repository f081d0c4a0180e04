// SPDX-License-Identifier: Apache-2.0
#include "fs/fuse/protocol/buffers.h"

#include <sys/mman.h>

#include <utility>

#include "transport/base/check.h"

namespace brickfs {

Result<std::unique_ptr<FuseBuffers>> FuseBuffers::make(VolumeAccess& volume) {
  constexpr size_t kRequestBytes =
      kFuseTransferBytes + 64 * kKiB;  // headers, names and a group's list come before data
  return map(volume, kRequestBytes + kFuseTransferBytes, kRequestBytes, kFuseTransferBytes);
}

Result<std::unique_ptr<FuseBuffers>> FuseBuffers::make_shared(VolumeAccess& volume) {
  constexpr size_t kBytes = 4 * kKiB + kFuseTransferBytes;
  return map(volume, kBytes, kBytes, kFuseTransferBytes);
}

Result<std::unique_ptr<FuseBuffers>> FuseBuffers::make_small(VolumeAccess& volume) {
  return map(volume, kSmallRequestBytes + kFewBytes, kSmallRequestBytes, kFewBytes);
}

Result<std::unique_ptr<FuseBuffers>> FuseBuffers::map(VolumeAccess& volume, size_t bytes, size_t request_bytes,
                                                      size_t reply_bytes) {
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return errno_error("memory for requests");
  std::unique_ptr<FuseBuffers> buffers(
      new FuseBuffers({static_cast<std::byte*>(memory), bytes}, request_bytes, reply_bytes));
  buffers->registration_ = TRY(volume.register_memory(buffers->memory_));
  return buffers;
}

FuseBuffers::~FuseBuffers() {
  registration_ = RegisteredMemory();
  munmap(memory_.data(), memory_.size());
}

LocalSlice FuseBuffers::slice(std::span<std::byte> part) const {
  CHECK(part.data() >= memory_.data() && part.data() + part.size() <= memory_.data() + memory_.size());
  return {part.data(), static_cast<uint32_t>(part.size()), registration_.local_key()};
}

}  // namespace brickfs
