// SPDX-License-Identifier: Apache-2.0
// The blocks that hold file data, and which of their units are in use. Blocks in full use are mere runs; each other one
// has a bitmap and stands in a class by its number of free units, so that one with room is found quickly.
//
// Blocks that a file has grown into lately ("tails") are kept out of other files' way while there is other room.
//
// Threads: none of its own.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/btree_set.h"
#include "fs/base/ids.h"
#include "fs/space/block_runs.h"
#include "fs/space/unit_bitmap.h"
#include "transport/base/result.h"

namespace brickfs {

class DataBlocks {
 public:
  // Recovery. EUCLEAN: a unit of it is in use already.
  Status adopt(UnitRun run);
  // New blocks: the first `used_units` of them are in use, at least one of the last block.
  void add(BlockRun blocks, uint64_t used_units);

  // Takes free units from exactly `goal` on, within its block, at most `most`.
  UnitRun extend(uint64_t goal, uint64_t most);
  // Takes one run of `units`, all within a block; first where it leaves least waste.
  std::optional<UnitRun> take_fitting(uint64_t units);
  // Takes any free run, at most `most`; count 0: no unit is free.
  UnitRun take_any(uint64_t most);
  // All of it in use.
  void give_back(UnitRun run);

  uint64_t blocks() const { return full_.size() + partial_.size(); }
  uint64_t free_units() const { return free_units_; }
  uint64_t empty_blocks() const { return classes_[kEmptyClass].size(); }
  uint64_t empty_blocks(BlockRun among) const;  // those whose addresses are among these
  // Neighbouring blocks, among these addresses, no unit of which is in use; they leave the set. None: there are no
  // such.
  std::optional<BlockRun> remove_empty(uint64_t most, BlockRun among);
  bool contains_any(BlockRun run) const;
  // All blocks with a unit in use, as runs that may touch.
  std::vector<BlockRun> all() const;

 private:
  static constexpr size_t kEmptyClass = std::bit_width(kUnitsPerBlock) - 1;  // class c: 2^c to 2^(c+1) - 1 free units
  static constexpr size_t kTails = 8;
  static_assert(kUnitsPerBlock == uint64_t{1} << kEmptyClass);
  using Partial = absl::btree_map<uint64_t, UnitBitmap>;

  void use(Partial::iterator at, UnitBitmap::Run run);
  void give_back_within(uint64_t block, UnitBitmap::Run run);
  void note_tail(uint64_t block);
  bool is_tail(uint64_t block) const;
  std::optional<UnitRun> take_from_class(size_t size_class, uint32_t units);

  BlockRuns full_;
  Partial partial_;  // with at least one free unit
  std::array<absl::btree_set<uint64_t>, kEmptyClass + 1> classes_;
  std::vector<uint64_t> tails_;  // oldest first
  uint64_t free_units_ = 0;
};

}  // namespace brickfs
