// SPDX-License-Identifier: Apache-2.0
// How many blocks the volume has on one brick, and for what: those in use by metadata, those kept allocated ahead
// ("fresh": zero, never used), and those the brick would still give. Metadata has a reserve, which is held allocated,
// so that it is there even when other volumes have taken all that the brick had. Threads: none of its own.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>

#include "fs/space/block_runs.h"
#include "transport/brick/limits.h"

namespace brickfs {

class BlockBudget {
 public:
  static constexpr uint64_t kEndOfBlocks = limits::kVolumeBytes / kBlockBytes;
  // Block 0 is the superblock's.
  static constexpr BlockRun kAllAddresses{1, kEndOfBlocks - 1};

  // Of the volume's whole capacity there and of the brick's memory. `addresses`: those that it may name. Without
  // metadata, which is on one brick of a set only, there is no reserve for it.
  enum class For { kMetadataToo, kData };
  BlockBudget(uint64_t capacity_blocks, uint64_t memory_blocks, BlockRun addresses = kAllAddresses,
              For what = For::kMetadataToo);

  // --- metadata
  const BlockRuns& metadata() const { return metadata_; }
  BlockRuns& metadata() { return metadata_; }
  void set_metadata_bytes(uint64_t live_bytes);
  // The journal may have so many blocks until a checkpoint: with it there is room, even if data takes all it may, for
  // that checkpoint, which may have grown by as much, and for those of operations that free.
  uint64_t journal_room() const;
  // False: nothing may be made that makes it grow further, or a checkpoint would not find room.
  bool metadata_has_room() const;
  // Fresh blocks that are metadata's, not to be given to data.
  uint64_t held() const { return reserve_ > metadata_.size() ? reserve_ - metadata_.size() : 0; }
  // So many of them stay allocated when the volume is closed, for its next mount: it has room then whatever others
  // take.
  uint64_t held_when_closed() const;
  // At most, beside so many blocks of metadata, of a checkpoint of so many bytes of rows.
  static uint64_t most_held_when_closed(uint64_t metadata_blocks, uint64_t row_bytes);

  // --- blocks kept ahead
  uint64_t fresh() const { return fresh_.size(); }
  uint64_t fresh_for_data() const { return fresh() > held() ? fresh() - held() : 0; }
  // Takes neighbouring blocks, `count` if there are so many in a row, else fewer; at `goal` if that is fresh.
  BlockRun take_fresh(uint64_t count, std::optional<uint64_t> goal);
  std::optional<BlockRun> take_fresh_exactly(uint64_t count);
  std::optional<BlockRun> take_last_fresh(uint64_t most);
  // The first run not yet mapped among the `window` foremost fresh blocks; it counts as mapped from now on.
  std::optional<BlockRun> next_to_map(uint64_t window);
  uint64_t standing() const { return standing_; }      // for data, when nothing goes on
  uint64_t most_ahead() const { return most_ahead_; }  // for data, while streaming

  // --- the brick. Calls under way are counted: blocks that come and go are neither fresh nor the brick's.
  // Names `count` blocks that were never named before.
  BlockRun begin_alloc(uint64_t count);
  void end_alloc(BlockRun blocks, bool done);  // they are not made fresh here
  void make_fresh(BlockRun blocks) { fresh_.insert(blocks); }
  void begin_free(uint64_t count);
  void end_free(uint64_t count, bool done);
  // What the brick said it can give, unless calls were under way meanwhile: `version` as before asking.
  uint64_t version() const { return version_; }
  void set_allocatable(uint64_t blocks, uint64_t version);
  // That it can give no more, behind a call that was refused and has ended; `version` as before that ended. False: so
  // have others, and by now it may give more: it is to be asked again.
  bool cap_allocatable(uint64_t blocks, uint64_t version);
  uint64_t allocatable() const { return std::min(allocatable_, end_ - next_); }
  // Blocks that a call under way may yet bring.
  bool under_way() const { return coming_ + going_ > 0; }
  // Blocks found on the brick, ascending, before any is named to it: new ones get addresses behind them; or, if a
  // volume leaves none there (as none of ours does), in the widest gap.
  void place_beside(std::span<const BlockRun> found);

  // Blocks that data may have beyond its own.
  uint64_t available_to_data() const;

 private:
  const uint64_t capacity_;
  const uint64_t standing_;
  const uint64_t most_ahead_;
  const uint64_t base_reserve_;
  // With fewer nothing may be made.
  uint64_t least_for_metadata() const;
  uint64_t blocks_for_metadata() const { return metadata_.size() + fresh() + allocatable() + coming_ + going_; }

  uint64_t twice_rows_ = 0;  // in whole blocks: a checkpoint and its successor, but for the last block of each
  uint64_t reserve_;
  BlockRuns metadata_;
  BlockRuns fresh_;
  uint64_t allocatable_ = 0;
  uint64_t coming_ = 0;
  uint64_t going_ = 0;
  const BlockRun addresses_;
  // No block in [next_, end_) was ever named to the brick during this mount, or found on it.
  uint64_t next_;
  uint64_t end_;
  uint64_t mapped_before_ = 0;  // fresh blocks below it are mapped
  uint64_t version_ = 0;
};

}  // namespace brickfs
