// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <future>

#include "fmt/format.h"
#include "fs/checkpoint.h"
#include "fs/checkpoint_format.h"

namespace brickfs {
namespace {

// While one block is being decoded the next one is on its way.
class CheckpointReader {
 public:
  CheckpointReader(VolumeClient& volume, const CheckpointPlace& place, uint64_t seed, RowVisitor& visitor, std::string* why)
      : volume_(volume), place_(place), seed_(seed), visitor_(visitor), why_(why) {}

  Status read();

 private:
  Status load_block(uint64_t index, std::vector<std::byte>& block);
  Status decode_block(uint64_t index, std::span<const std::byte> block);
  Status decode_chunk(uint64_t sequence, std::span<const std::byte> chunk, uint64_t address);
  Status damaged(std::string why);

  VolumeClient& volume_;
  const CheckpointPlace& place_;
  const uint64_t seed_;
  RowVisitor& visitor_;
  std::string* const why_;
  uint64_t rows_ = 0;
  uint64_t checksum_ = 0;
};

Status CheckpointReader::damaged(std::string why) {
  *why_ = std::move(why);
  return Error(EUCLEAN, "checkpoint is damaged");
}

Status CheckpointReader::read() {
  const uint64_t blocks = divide_up(place_.chunks, kChunksPerBlock);
  if (blocks != place_.blocks()) {
    return damaged(fmt::format("the superblock names {} blocks for the {} chunks of the checkpoint", place_.blocks(), place_.chunks));
  }
  std::vector<std::byte> block(kBlockBytes);
  std::vector<std::byte> following(blocks > 1 ? kBlockBytes : 0);
  if (blocks > 0) TRY(load_block(0, block));
  for (uint64_t i = 0; i < blocks; ++i) {
    std::future<Status> loading;
    if (i + 1 < blocks) loading = std::async(std::launch::async, [&, i] { return load_block(i + 1, following); });
    const Status decoded = decode_block(i, block);
    const Status loaded = loading.valid() ? loading.get() : Status();
    TRY(Status(decoded));
    TRY(Status(loaded));
    block.swap(following);
  }
  if (rows_ != place_.rows || checksum_ != place_.checksum) {
    return damaged(fmt::format("the checkpoint has {} rows, the superblock says {}, or its chunks are of different checkpoints", rows_,
                               place_.rows));
  }
  return {};
}

Status CheckpointReader::load_block(uint64_t index, std::vector<std::byte>& block) {
  const uint64_t chunks = std::min<uint64_t>(place_.chunks - index * kChunksPerBlock, kChunksPerBlock);
  const Piece piece{raw(block_at(place_, index)), {LocalSlice{block.data(), static_cast<uint32_t>(chunks * kChunkBytes), 0}}};
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
    return damaged(fmt::format("checkpoint chunk {} of {} at {:#x} does not verify", sequence, place_.chunks, address));
  }
  rows_ += header->rows;
  checksum_ = add_chunk(checksum_, header->checksum);
  const Status decoded = decode_rows(chunk.subspan(sizeof(*header), header->row_bytes), visitor_);
  if (decoded.ok() || !decoded.error().is(EUCLEAN)) return decoded;
  return damaged(fmt::format("checkpoint chunk {} of {} at {:#x} verifies but makes no sense: {}", sequence, place_.chunks, address,
                             decoded.error().what()));
}

}  // namespace

BlockAddress block_at(const CheckpointPlace& place, uint64_t index) {
  for (const BlockRange& run : place.runs) {
    if (index < run.count) return block_after(run.start, index);
    index -= run.count;
  }
  return {};
}

Status read_checkpoint(VolumeClient& volume, const CheckpointPlace& place, uint64_t seed, RowVisitor& visitor, std::string* why) {
  return CheckpointReader(volume, place, seed, visitor, why).read();
}

}  // namespace brickfs
