// SPDX-License-Identifier: Apache-2.0
// Where the journal's batches go: the chain of blocks, the place in the current one, the spare that follows it. When
// they go is the committer's business (journal.cc), in whose thread everything happens but what is marked otherwise.
//
// The current block's header names its successor, so a block is opened only when a spare is at hand. A batch that
// failed to be written may be tried again: it goes to the same place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "fs/base/ids.h"
#include "fs/persistence/journal_format.h"
#include "fs/persistence/journal_reader.h"
#include "fs/space/space.h"
#include "transport/base/mutex.h"
#include "transport/base/result.h"
#include "transport/volume/volume_set.h"

namespace brickfs {

class JournalWriter {
 public:
  JournalWriter(VolumeSet& volume, Space& space) : volume_(volume), space_(space) {}

  // Clears the block to begin with, if a torn write left something in it, and takes a spare.
  Status start(uint64_t seed, const JournalEnd& end);

  // Payload bytes of the largest batch that fits into what is left of the current block.
  size_t room_bytes() const;
  // Ends the current block, unless nothing is in it yet. True if it did.
  Result<bool> advance();
  // Writes a batch; its payload is within room_bytes(). ENOSPC, EDQUOT: no spare; else what the volume answers.
  Status write(std::span<const std::byte> payload, uint32_t transactions, Lsn first, Lsn durable_through);
  // At the end: frees the spare if no header names it. If that fails the next mount finds it unreferenced.
  void give_back_spare();
  // Of the current block; before start() and in between any thread may ask.
  BlockAddress current_block() const ABSL_LOCKS_EXCLUDED(mutex_);

  // Any thread.
  uint64_t chain_blocks() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Frees the blocks before `block`, which is in the chain.
  Status drop_before(BlockAddress block) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  Status take_spare();
  Status write_at(uint64_t address, size_t bytes);

  VolumeSet& volume_;
  Space& space_;

  // The committer's.
  uint64_t seed_ = 0;
  std::vector<std::byte> buffer_;  // of one block, where a batch is put together
  RegisteredMemory registration_;
  size_t offset_ = 0;  // behind the last batch in the current block; 0: not opened
  std::optional<BlockAddress> spare_;

  mutable Mutex mutex_;
  std::vector<BlockAddress> chain_ ABSL_GUARDED_BY(mutex_);  // the last one is the current block
};

}  // namespace brickfs
