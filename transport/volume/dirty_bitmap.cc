// SPDX-License-Identifier: Apache-2.0
#include "transport/volume/dirty_bitmap.h"

#include <algorithm>
#include <cstring>

#include "transport/volume/set_membership.h"

namespace brickfs {

DirtyBitmap::DirtyBitmap(const SetId& set, size_t place, uint64_t number)
    : set_(set), place_(place), first_block_(first_block_of(place).start), number_(number), bytes_(kBitmapBlocks) {}

bool DirtyBitmap::has(std::span<const BlockRange> blocks) const {
  return std::ranges::all_of(blocks, [this](const BlockRange& range) {
    for (uint64_t i = 0; i < std::min(range.count, kBitmapBlocks); ++i) {
      if (bytes_[index_of(block_after(range.start, i))].load() == 0) return false;
    }
    return true;
  });
}

BlockSet DirtyBitmap::among(std::span<const BlockRange> blocks) const {
  BlockSet noted;
  for (const BlockRange& range : blocks) {
    for (uint64_t i = 0; i < range.count; ++i) {
      const BlockRange block{block_after(range.start, i), 1};
      if (bytes_[index_of(block.start)].load() != 0) noted.insert(block);
    }
  }
  return noted;
}

Status DirtyBitmap::read(VolumeClient& replica) {
  std::vector<std::byte> bytes(kBitmapBlocks);
  const Piece piece{address_of(0), {{bytes.data(), static_cast<uint32_t>(bytes.size()), 0}}};
  TRY(replica.read(std::span(&piece, 1)));
  for (uint64_t i = 0; i < kBitmapBlocks; ++i) {
    if (bytes[i] != std::byte{0}) bytes_[i] = 1;
  }
  return {};
}

void DirtyBitmap::insert(std::span<const BlockRange> blocks) {
  for (const BlockRange& range : blocks) {
    for (uint64_t i = 0; i < std::min(range.count, kBitmapBlocks); ++i) {
      bytes_[index_of(block_after(range.start, i))] = 1;
    }
  }
}

Status DirtyBitmap::write(const Write& write, const Interruption* by) const {
  const StoredBitmapHeader header = encode_bitmap_header(set_, place_, number_);
  std::vector<std::byte> bytes(kBitmapHeaderBytes + kBitmapBlocks);
  std::memcpy(bytes.data(), &header, sizeof(header));
  for (uint64_t i = 0; i < kBitmapBlocks; ++i) bytes[kBitmapHeaderBytes + i] = std::byte{bytes_[i].load()};
  const Piece piece{raw(first_block_) + kBitmapOffset, {{bytes.data(), static_cast<uint32_t>(bytes.size()), 0}}};
  return write(std::span(&piece, 1), by);
}

Status DirtyBitmap::note(std::span<const BlockRange> blocks, const Write& write, const Interruption* by) {
  std::vector<std::pair<uint64_t, uint64_t>> runs;  // of bytes: first, count
  uint64_t longest = 0;
  for (const BlockRange& range : blocks) {
    for (uint64_t i = 0; i < std::min(range.count, kBitmapBlocks); ++i) {
      const uint64_t index = index_of(block_after(range.start, i));
      if (bytes_[index].load() != 0) continue;
      if (runs.empty() || runs.back().first + runs.back().second != index) runs.emplace_back(index, 0);
      longest = std::max(longest, ++runs.back().second);
    }
  }
  if (runs.empty()) return {};
  std::vector<std::byte> ones(longest, std::byte{1});
  std::vector<Piece> pieces;
  for (const auto& [first, count] : runs) {
    pieces.push_back({address_of(first), {{ones.data(), static_cast<uint32_t>(count), 0}}});
  }
  TRY(write(pieces, by));
  insert(blocks);
  return {};
}

}  // namespace brickfs
