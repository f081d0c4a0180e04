// SPDX-License-Identifier: Apache-2.0
// Blocks: the unit in which a brick allocates and maps, and how they are named.
#pragma once

#include <compare>
#include <cstdint>

#include "transport/base/bytes.h"

namespace brickfs {

constexpr uint64_t kBlockBytes = 2 * kMiB;

// A block's name: a multiple of kBlockBytes that the client chooses. A logical id, not a physical place: the bytes of
// a volume form one linear 64-bit space of which the allocated blocks exist ("volume address" = block address +
// offset).
enum class BlockAddress : uint64_t {};

constexpr uint64_t raw(BlockAddress address) { return static_cast<uint64_t>(address); }
constexpr BlockAddress block_of(uint64_t volume_address) {
  return BlockAddress{round_down(volume_address, kBlockBytes)};
}
constexpr BlockAddress block_after(BlockAddress address, uint64_t count = 1) {
  return BlockAddress{raw(address) + count * kBlockBytes};
}

// `count` neighbouring blocks from `start` on.
struct BlockRange {
  BlockAddress start{};
  uint64_t count = 0;

  constexpr BlockAddress end() const { return block_after(start, count); }
  constexpr bool operator==(const BlockRange&) const = default;
};

// Aligned, not empty, and not past the end of the 64-bit space. What a client sends is checked with this.
constexpr bool is_valid(const BlockRange& range) {
  return raw(range.start) % kBlockBytes == 0 && range.count > 0 &&
         range.count <= (UINT64_MAX - raw(range.start)) / kBlockBytes;
}

}  // namespace brickfs
