// SPDX-License-Identifier: Apache-2.0
// A checkpoint: all rows of the tree in chunks on blocks of its own. Format: docs/format.md, section "Checkpoint".
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "fs/inode/rows.h"
#include "fs/persistence/superblock.h"
#include "fs/space/space.h"
#include "transport/base/progress.h"
#include "transport/base/result.h"
#include "transport/volume/volume_set.h"

namespace brickfs {

// Writes rows to fresh blocks, allocated in growing steps and given back where not used. Nothing refers to them until a
// superblock does. Threads: one at a time.
class CheckpointWriter {
 public:
  // `id` differs from that of the checkpoint in force. `expected_blocks`: how large the last one was, 0 if there was
  // none.
  CheckpointWriter(VolumeSet& volume, Space& space, uint64_t seed, uint64_t id, uint64_t expected_blocks);
  ~CheckpointWriter();  // gives the blocks back unless finish() has succeeded
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  // Whole rows, as in a Transaction, only puts. ENOSPC, EDQUOT, and what the volume answers.
  Status add(std::span<const std::byte> rows);
  // All of `source`.
  Status add_all(RowSource& source);
  // Everything is written (not committed). The blocks are the caller's from now on.
  Result<CheckpointPlace> finish();

 private:
  Status close_chunk();
  Status flush_block();
  Status reserve_blocks();
  Status append_run(BlockRange blocks);
  Status trim_unused();

  VolumeSet& volume_;
  Space& space_;
  const uint64_t seed_;
  const uint64_t expected_blocks_;
  CheckpointPlace place_;
  uint64_t reserved_blocks_ = 0;  // in place_.runs
  uint64_t written_blocks_ = 0;
  std::vector<std::byte> block_;  // being filled, chunk by chunk
  RegisteredMemory registration_;
  size_t chunk_ = 0;        // where in block_ the current chunk begins
  size_t chunk_bytes_ = 0;  // rows in it so far
  uint32_t chunk_rows_ = 0;
  bool finished_ = false;
};

// The checkpoint's block number `index`, counted through its runs. Precondition: it has so many.
BlockAddress block_at(const CheckpointPlace& place, uint64_t index);

// Feeds the rows of every chunk that verifies to `visitor`. What is missing goes to `damaged`, a line on what and where
// for each chunk or run of blocks. `allocated`: the volume's blocks, ascending. Errors: the volume's, and the visitor's
// but EUCLEAN.
Status read_checkpoint(VolumeSet& volume, const CheckpointPlace& place, uint64_t seed,
                       std::span<const BlockRange> allocated, RowVisitor& visitor, const Progress& progress,
                       const std::function<void(std::string)>& damaged);

}  // namespace brickfs
