// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "fmt/core.h"
#include "fs/base/block_ranges.h"
#include "fs/persistence/checkpoint.h"
#include "fs/persistence/checkpoint_format.h"
#include "transport/base/thread.h"

namespace brickfs {
namespace {

// While one block is being decoded the next one is on its way.
class CheckpointReader {
 public:
  using Damaged = std::function<void(std::string)>;
  CheckpointReader(VolumeSet& volume, const CheckpointPlace& place, uint64_t seed,
                   std::span<const BlockRange> allocated, RowVisitor& visitor, const Progress& progress,
                   const Damaged& damaged)
      : volume_(volume),
        place_(place),
        seed_(seed),
        allocated_(allocated),
        visitor_(visitor),
        progress_(progress),
        damaged_(damaged) {}

  Status read();

 private:
  Status load_block(uint64_t index, std::vector<std::byte>& block);
  Status decode_block(uint64_t index, std::span<const std::byte> block);
  Status decode_chunk(uint64_t sequence, std::span<const std::byte> chunk, uint64_t address);
  std::vector<uint64_t> blocks_there() const;
  void report_missing_blocks();
  void damaged(std::string what);

  VolumeSet& volume_;
  const CheckpointPlace& place_;
  const uint64_t seed_;
  const std::span<const BlockRange> allocated_;
  RowVisitor& visitor_;
  const Progress& progress_;
  const Damaged& damaged_;
  bool whole_ = true;
  uint64_t rows_ = 0;
  uint64_t row_bytes_ = 0;
  uint64_t checksum_ = 0;
};

void CheckpointReader::damaged(std::string what) {
  whole_ = false;
  damaged_(std::move(what));
}

void CheckpointReader::report_missing_blocks() {
  for (const BlockRange& run : place_.runs) {
    for (const BlockRange& missing : subtract({&run, 1}, allocated_)) {
      damaged(fmt::format("{} block(s) of the checkpoint at {:#x} are not on the brick", missing.count,
                          raw(missing.start)));
    }
  }
}

// By their place in the checkpoint. No more than are on the brick, whatever the superblock says.
std::vector<uint64_t> CheckpointReader::blocks_there() const {
  std::vector<uint64_t> there;
  uint64_t before = 0;  // of former runs
  for (const BlockRange& run : place_.runs) {
    for (const BlockRange& part : intersect({&run, 1}, allocated_)) {
      const uint64_t first = before + (raw(part.start) - raw(run.start)) / kBlockBytes;
      for (uint64_t i = 0; i < part.count; ++i) there.push_back(first + i);
    }
    before += run.count;
  }
  return there;
}

Status CheckpointReader::read() {
  const uint64_t blocks = divide_up(place_.chunks, kChunksPerBlock);
  if (blocks != place_.blocks()) {
    damaged(fmt::format("the superblock names {} blocks for the {} chunks of the checkpoint", place_.blocks(),
                        place_.chunks));
    return {};
  }
  report_missing_blocks();
  const std::vector<uint64_t> there = blocks_there();
  std::vector<std::byte> block(kBlockBytes);
  std::vector<std::byte> following(there.size() > 1 ? kBlockBytes : 0);
  if (!there.empty()) TRY(load_block(there[0], block));
  for (size_t i = 0; i < there.size(); ++i) {
    Status loaded;
    Thread loading;
    if (i + 1 < there.size()) loading = Thread([&, i] { loaded = load_block(there[i + 1], following); });
    const Status decoded = decode_block(there[i], block);
    if (loading.joinable()) loading.join();
    TRY(Status(decoded));
    TRY(Status(loaded));
    block.swap(following);
    if (progress_) progress_("blocks of the checkpoint read", i + 1, there.size());
  }
  if (whole_ && (rows_ != place_.rows || row_bytes_ != place_.row_bytes || checksum_ != place_.checksum)) {
    damaged(
        fmt::format("the checkpoint has {} rows, the superblock says {}, or its chunks are of different checkpoints",
                    rows_, place_.rows));
  }
  return {};
}

Status CheckpointReader::load_block(uint64_t index, std::vector<std::byte>& block) {
  const uint64_t chunks = std::min<uint64_t>(place_.chunks - index * kChunksPerBlock, kChunksPerBlock);
  const Piece piece{raw(block_at(place_, index)),
                    {LocalSlice{block.data(), static_cast<uint32_t>(chunks * kChunkBytes), 0}}};
  return volume_.read({&piece, 1});
}

Status CheckpointReader::decode_block(uint64_t index, std::span<const std::byte> block) {
  const uint64_t first = index * kChunksPerBlock;
  const uint64_t end = std::min(first + kChunksPerBlock, place_.chunks);
  for (uint64_t sequence = first; sequence < end; ++sequence) {
    const size_t offset = (sequence - first) * kChunkBytes;
    TRY(decode_chunk(sequence, block.subspan(offset, kChunkBytes), raw(block_at(place_, index)) + offset));
  }
  return {};
}

Status CheckpointReader::decode_chunk(uint64_t sequence, std::span<const std::byte> chunk, uint64_t address) {
  const auto header = parse_chunk(chunk, seed_);
  if (!header || header->checkpoint_id != place_.id || header->sequence != sequence) {
    damaged(fmt::format("checkpoint chunk {} of {} at {:#x} does not verify", sequence, place_.chunks, address));
    return {};
  }
  rows_ += header->rows;
  row_bytes_ += header->row_bytes;
  checksum_ = add_chunk(checksum_, header->checksum);
  const Status decoded = decode_rows(chunk.subspan(sizeof(*header), header->row_bytes), visitor_);
  if (decoded.ok() || !decoded.error().is(EUCLEAN)) return decoded;
  damaged(fmt::format("checkpoint chunk {} of {} at {:#x} verifies but makes no sense: {}", sequence, place_.chunks,
                      address, decoded.error().what()));
  return {};
}

}  // namespace

BlockAddress block_at(const CheckpointPlace& place, uint64_t index) {
  for (const BlockRange& run : place.runs) {
    if (index < run.count) return block_after(run.start, index);
    index -= run.count;
  }
  return {};
}

Status read_checkpoint(VolumeSet& volume, const CheckpointPlace& place, uint64_t seed,
                       std::span<const BlockRange> allocated, RowVisitor& visitor, const Progress& progress,
                       const std::function<void(std::string)>& damaged) {
  return CheckpointReader(volume, place, seed, allocated, visitor, progress, damaged).read();
}

}  // namespace brickfs
