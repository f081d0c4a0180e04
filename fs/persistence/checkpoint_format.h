// SPDX-License-Identifier: Apache-2.0
// A checkpoint's bytes: chunks of one size, eight to a block, each with whole rows. docs/format.md, section
// "Checkpoint".
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "transport/base/bytes.h"
#include "transport/brick/block.h"

namespace brickfs {

constexpr size_t kChunkBytes = kBlockBytes / 8;
constexpr size_t kChunksPerBlock = kBlockBytes / kChunkBytes;

struct ChunkHeader {
  static constexpr uint64_t kMagic = 0x314b'4843'4b43'5242;  // "BRCKCHK1"

  uint64_t magic = kMagic;
  uint64_t checkpoint_id = 0;
  uint64_t sequence = 0;  // 0, 1, 2 ...
  uint32_t rows = 0;
  uint32_t row_bytes = 0;  // behind this header; the rest of the chunk means nothing
  uint64_t checksum = 0;   // of the 32 bytes before and the rows
};
static_assert(sizeof(ChunkHeader) == 40);

constexpr size_t kChunkRowBytes = kChunkBytes - sizeof(ChunkHeader);

// Fills in magic and checksum.
void seal(ChunkHeader& header, std::span<const std::byte> rows, uint64_t seed);
// The header at the start of `chunk`, if it verifies; then its rows are within the chunk.
std::optional<ChunkHeader> parse_chunk(std::span<const std::byte> chunk, uint64_t seed);
// The checksum over a checkpoint, grown by one chunk's.
uint64_t add_chunk(uint64_t checkpoint_checksum, uint64_t chunk_checksum);

}  // namespace brickfs
