// SPDX-License-Identifier: Apache-2.0
// Reads a journal for recovery: replays up to the first batch that does not verify, and tells a torn tail (legitimate
// after a crash) from damage. docs/recovery.md has the decision table.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "fs/base/ids.h"
#include "fs/inode/rows.h"
#include "transport/base/result.h"
#include "transport/volume/volume_set.h"

namespace brickfs {

// Where a journal ends, and where it goes on.
struct JournalEnd {
  Lsn next{1};                      // of the first transaction to come
  std::vector<BlockAddress> chain;  // blocks that hold transactions, in order
  BlockAddress fresh{};             // allocated: the block that the next batch begins, behind `chain`
  bool fresh_dirty = false;         // has bytes of a torn write in it, to be zeroed first
  // The first batch that is there and is not to be believed (VolumeSet::trusted_position): to be made void before
  // what says that later ones are to be believed becomes durable.
  std::optional<uint64_t> void_batch;  // its volume address
  uint64_t transactions = 0;           // replayed
  // Not empty: something that was durable is missing or wrong, one line on what and where. What was replayed is a
  // consistent state before it; nothing may be written to the volume.
  std::string damage;
};

// `allocated`: the volume's blocks, ascending. Errors: the volume's and the visitor's (an EUCLEAN of the rows' decoding
// or of the visitor becomes `damage`).
Result<JournalEnd> read_journal(VolumeSet& volume, uint64_t seed, Lsn first, BlockAddress first_block,
                                std::span<const BlockRange> allocated, RowVisitor& visitor);

}  // namespace brickfs
