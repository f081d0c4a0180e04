// SPDX-License-Identifier: Apache-2.0
// Owns a mapping of memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "transport/base/result.h"

namespace brickfs {

class MappedMemory {
 public:
  MappedMemory() = default;
  explicit MappedMemory(std::span<std::byte> bytes) : bytes_(bytes) {}
  MappedMemory(MappedMemory&& other) noexcept;
  MappedMemory& operator=(MappedMemory&& other) noexcept;
  ~MappedMemory();

  // Bytes of a file, shared with all who map them, that begin on a block's boundary in memory as they do in the file:
  // so the kernel can give them huge pages. Precondition: `offset` and `length_bytes` are multiples of a block.
  static Result<MappedMemory> of_file(int fd, uint64_t offset, uint64_t length_bytes);

  std::span<std::byte> bytes() const { return bytes_; }

 private:
  std::span<std::byte> bytes_;
};

}  // namespace brickfs
