// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include "fs/persistence/checkpoint.h"
#include "fs/persistence/checkpoint_format.h"
#include "transport/base/check.h"

namespace brickfs {
namespace {

constexpr uint64_t kGrowth = 8;  // another eighth of what there is, at a time

}  // namespace

CheckpointWriter::CheckpointWriter(VolumeSet& volume, Space& space, uint64_t seed, uint64_t id,
                                   uint64_t expected_blocks)
    : volume_(volume), space_(space), seed_(seed), expected_blocks_(expected_blocks), block_(kBlockBytes) {
  place_.id = id;
}

CheckpointWriter::~CheckpointWriter() {
  if (finished_) return;
  // What cannot be freed now is found unreferenced, and freed, by the next mount.
  for (const BlockRange& run : place_.runs) static_cast<void>(space_.free_metadata(run));
}

Status CheckpointWriter::add_all(RowSource& source) {
  Transaction rows;
  bool more = true;
  while (more) {
    more = source.next(rows, kChunkBytes);
    TRY(add(rows.bytes()));
    rows.clear();
  }
  return {};
}

Status CheckpointWriter::add(std::span<const std::byte> rows) {
  while (!rows.empty()) {
    // As many as fit, in one copy.
    size_t bytes = 0;
    while (bytes < rows.size()) {
      const size_t length = TRY(first_row_bytes(rows.subspan(bytes)));
      CHECK(length <= kChunkRowBytes);
      if (chunk_bytes_ + bytes + length > kChunkRowBytes) break;
      bytes += length;
      ++chunk_rows_;
    }
    std::memcpy(block_.data() + chunk_ + sizeof(ChunkHeader) + chunk_bytes_, rows.data(), bytes);
    chunk_bytes_ += bytes;
    rows = rows.subspan(bytes);
    if (!rows.empty()) TRY(close_chunk());
  }
  return {};
}

Status CheckpointWriter::close_chunk() {
  ChunkHeader header{.checkpoint_id = place_.id, .sequence = place_.chunks, .rows = chunk_rows_};
  const auto rows = std::span<const std::byte>(block_).subspan(chunk_ + sizeof(header), chunk_bytes_);
  seal(header, rows, seed_);
  std::memcpy(block_.data() + chunk_, &header, sizeof(header));
  std::fill_n(block_.data() + chunk_ + sizeof(header) + chunk_bytes_, kChunkRowBytes - chunk_bytes_, std::byte{0});
  place_.chunks += 1;
  place_.rows += chunk_rows_;
  place_.row_bytes += chunk_bytes_;
  place_.checksum = add_chunk(place_.checksum, header.checksum);
  chunk_ += kChunkBytes;
  chunk_bytes_ = 0;
  chunk_rows_ = 0;
  return chunk_ == kBlockBytes ? flush_block() : Status();
}

Status CheckpointWriter::flush_block() {
  if (written_blocks_ == 0) registration_ = TRY(volume_.register_memory(block_));
  if (written_blocks_ == reserved_blocks_) TRY(reserve_blocks());
  const Piece piece{raw(block_at(place_, written_blocks_)),
                    {LocalSlice{block_.data(), static_cast<uint32_t>(chunk_), registration_.local_key()}}};
  TRY(volume_.write({&piece, 1}, Stage::kJournal));
  ++written_blocks_;
  chunk_ = 0;
  return {};
}

// More blocks: as many as the former checkpoint had, then a share of what there is; less if space is short.
Status CheckpointWriter::reserve_blocks() {
  uint64_t count = std::max<uint64_t>(reserved_blocks_ == 0 ? expected_blocks_ : reserved_blocks_ / kGrowth, 1);
  while (true) {
    const auto blocks = space_.allocate_metadata(count);
    if (blocks.ok()) {
      reserved_blocks_ += count;
      return append_run(*blocks);
    }
    const bool short_of_space = blocks.error().is(ENOSPC) || blocks.error().is(EDQUOT);
    if (!short_of_space || count == 1) return blocks.error();
    count /= 2;
  }
}

Status CheckpointWriter::append_run(BlockRange blocks) {
  const bool continues = !place_.runs.empty() && place_.runs.back().end() == blocks.start;
  if (continues) {
    place_.runs.back().count += blocks.count;
  } else {
    place_.runs.push_back(blocks);
  }
  if (place_.runs.size() <= kCheckpointRuns) return {};
  return Error(ENOSPC, "space for a checkpoint is in too many pieces");
}

Result<CheckpointPlace> CheckpointWriter::finish() {
  if (chunk_bytes_ > 0) TRY(close_chunk());
  if (chunk_ > 0) TRY(flush_block());
  TRY(trim_unused());
  finished_ = true;
  return place_;
}

Status CheckpointWriter::trim_unused() {
  while (reserved_blocks_ > written_blocks_) {
    BlockRange& last = place_.runs.back();
    const uint64_t count = std::min(last.count, reserved_blocks_ - written_blocks_);
    const BlockRange unused{block_after(last.start, last.count - count), count};
    last.count -= count;
    if (last.count == 0) place_.runs.pop_back();
    reserved_blocks_ -= count;
    TRY(space_.free_metadata(unused));
  }
  return {};
}

}  // namespace brickfs
