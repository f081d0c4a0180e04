// SPDX-License-Identifier: Apache-2.0
// What a client knows of the blocks of its volume: which are allocated, and which of them since the last commit, so
// that a restarted brick, which may remember any mixture of what was not committed, can be put right.
// Threads: any.
#pragma once

#include <vector>

#include "transport/base/mutex.h"
#include "transport/brick/block.h"
#include "transport/brick/block_set.h"

namespace brickfs {

class BlockLedger {
 public:
  // What to do on a restarted brick, in this order.
  struct Repair {
    BlockSet lost;  // committed once, and gone: the brick has lost data; nothing can be repaired
    BlockSet free;  // should not be there, or must come back zero
    BlockSet allocate;
  };

  // The brick's list when the first session began.
  void start(std::span<const BlockRange> listed);

  bool contains(BlockRange blocks) const;    // all are allocated
  bool intersects(BlockRange blocks) const;  // any is
  void allocated(BlockRange blocks);
  // A free is about to be asked for: until freed() or kept() says so, the blocks may be there or not.
  void freeing(BlockRange blocks);
  void freed(BlockRange blocks);
  void kept(BlockRange blocks);

  // Around a commit: what was allocated and freed before turn_over() is durable at committed().
  void turn_over();
  void committed();

  // Something was allocated or freed that no commit has covered yet.
  bool has_uncommitted() const;
  BlockSet uncommitted() const;  // those blocks

  // The same brick, a new session, nothing under way: its list is the truth. Returns the blocks that turned out freed.
  std::vector<BlockRange> settle(std::span<const BlockRange> listed);
  Repair plan_repair(std::span<const BlockRange> listed) const;
  // The plan was carried out. Frees in doubt are done now: those blocks.
  std::vector<BlockRange> repaired();

 private:
  struct Generation {
    BlockSet born;  // allocated
    BlockSet freed;
    BlockSet reborn;  // allocated after they had been freed: what the brick remembers may be their former life
  };

  void note_allocated(const BlockSet& blocks) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void note_freed(const BlockSet& blocks) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable Mutex mutex_;
  BlockSet allocated_ ABSL_GUARDED_BY(mutex_);
  BlockSet freeing_ ABSL_GUARDED_BY(mutex_);  // part of allocated_
  Generation current_ ABSL_GUARDED_BY(mutex_);
  Generation committing_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace brickfs
