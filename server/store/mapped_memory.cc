// SPDX-License-Identifier: Apache-2.0
#include "server/store/mapped_memory.h"

#include <sys/mman.h>

#include <utility>

#include "transport/base/check.h"
#include "transport/brick/block.h"

namespace brickfs {

MappedMemory::MappedMemory(MappedMemory&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

MappedMemory& MappedMemory::operator=(MappedMemory&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  return *this;
}

MappedMemory::~MappedMemory() {
  if (!bytes_.empty()) CHECK(munmap(bytes_.data(), bytes_.size()) == 0);
}

// A place with room to spare is found first; what is not needed of it is given back.
Result<MappedMemory> MappedMemory::of_file(int fd, uint64_t offset, uint64_t length_bytes) {
  CHECK(offset % kBlockBytes == 0 && length_bytes % kBlockBytes == 0 && length_bytes > 0);
  void* const room =
      mmap(nullptr, length_bytes + kBlockBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (room == MAP_FAILED) return errno_error("finding room for a mapping");
  const uint64_t before = -reinterpret_cast<uintptr_t>(room) % kBlockBytes;
  auto* const place = static_cast<std::byte*>(room) + before;
  if (before > 0) munmap(room, before);
  munmap(place + length_bytes, kBlockBytes - before);
  MappedMemory mapped({place, length_bytes});
  const void* const memory =
      mmap(place, length_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, static_cast<off_t>(offset));
  if (memory == MAP_FAILED) return errno_error("mapping a file");
  return mapped;
}

}  // namespace brickfs
