// SPDX-License-Identifier: Apache-2.0
#include "fs/persistence/checkpoint_format.h"

#include <xxhash.h>

namespace brickfs {
namespace {

uint64_t checksum_of(const ChunkHeader& header, std::span<const std::byte> rows, uint64_t seed) {
  const uint64_t of_rows = XXH3_64bits_withSeed(rows.data(), rows.size(), seed);
  return XXH3_64bits_withSeed(&header, offsetof(ChunkHeader, checksum), of_rows);
}

}  // namespace

void seal(ChunkHeader& header, std::span<const std::byte> rows, uint64_t seed) {
  header.magic = ChunkHeader::kMagic;
  header.row_bytes = static_cast<uint32_t>(rows.size());
  header.checksum = checksum_of(header, rows, seed);
}

std::optional<ChunkHeader> parse_chunk(std::span<const std::byte> chunk, uint64_t seed) {
  if (chunk.size() < sizeof(ChunkHeader)) return std::nullopt;
  const auto header = load<ChunkHeader>(chunk);
  if (header.magic != ChunkHeader::kMagic || header.row_bytes > chunk.size() - sizeof(header)) return std::nullopt;
  if (header.checksum != checksum_of(header, chunk.subspan(sizeof(header), header.row_bytes), seed))
    return std::nullopt;
  return header;
}

uint64_t add_chunk(uint64_t checkpoint_checksum, uint64_t chunk_checksum) {
  return XXH3_64bits_withSeed(&chunk_checksum, sizeof(chunk_checksum), checkpoint_checksum);
}

}  // namespace brickfs
