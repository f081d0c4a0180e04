// SPDX-License-Identifier: Apache-2.0
#include "transport/volume/block_ledger.h"

namespace brickfs {

void BlockLedger::start(std::span<const BlockRange> listed) {
  MutexLock lock(mutex_);
  allocated_ = BlockSet(listed);
}

bool BlockLedger::contains(BlockRange blocks) const {
  MutexLock lock(mutex_);
  return allocated_.contains(blocks);
}

bool BlockLedger::intersects(BlockRange blocks) const {
  MutexLock lock(mutex_);
  return allocated_.intersects(blocks);
}

void BlockLedger::note_allocated(const BlockSet& blocks) {
  const BlockSet fresh = blocks.without(allocated_);
  current_.reborn.insert(fresh.intersection(current_.freed));
  current_.reborn.insert(fresh.intersection(committing_.freed));
  current_.born.insert(fresh);
  allocated_.insert(fresh);
}

void BlockLedger::note_freed(const BlockSet& blocks) {
  for (Generation* generation : {&current_, &committing_}) {
    generation->born.erase(blocks);
    generation->reborn.erase(blocks);
  }
  current_.freed.insert(blocks);
  freeing_.erase(blocks);
  allocated_.erase(blocks);
}

void BlockLedger::allocated(BlockRange blocks) {
  MutexLock lock(mutex_);
  note_allocated(BlockSet(std::span(&blocks, 1)));
}

void BlockLedger::freeing(BlockRange blocks) {
  MutexLock lock(mutex_);
  freeing_.insert(allocated_.intersection(blocks));
}

void BlockLedger::freed(BlockRange blocks) {
  MutexLock lock(mutex_);
  note_freed(BlockSet(std::span(&blocks, 1)));
}

void BlockLedger::kept(BlockRange blocks) {
  MutexLock lock(mutex_);
  freeing_.erase(blocks);
}

void BlockLedger::turn_over() {
  MutexLock lock(mutex_);
  committing_.born.insert(current_.born);
  committing_.freed.insert(current_.freed);
  committing_.reborn.insert(current_.reborn);
  current_ = {};
}

void BlockLedger::committed() {
  MutexLock lock(mutex_);
  committing_ = {};
}

bool BlockLedger::has_uncommitted() const {
  MutexLock lock(mutex_);
  const auto is_empty = [](const Generation& generation) {
    return generation.born.empty() && generation.freed.empty() && generation.reborn.empty();
  };
  return !is_empty(current_) || !is_empty(committing_);
}

BlockSet BlockLedger::uncommitted() const {
  MutexLock lock(mutex_);
  BlockSet blocks = freeing_;
  for (const Generation* generation : {&current_, &committing_}) {
    blocks.insert(generation->born);
    blocks.insert(generation->freed);
  }
  return blocks;
}

std::vector<BlockRange> BlockLedger::settle(std::span<const BlockRange> listed) {
  MutexLock lock(mutex_);
  const BlockSet there(listed);
  const BlockSet gone = allocated_.without(there);
  note_allocated(there.without(allocated_));
  note_freed(gone);
  freeing_.clear();
  return gone.ranges();
}

BlockLedger::Repair BlockLedger::plan_repair(std::span<const BlockRange> listed) const {
  MutexLock lock(mutex_);
  const BlockSet there(listed);
  const BlockSet wanted = allocated_.without(freeing_);
  BlockSet reborn = current_.reborn;
  reborn.insert(committing_.reborn);
  reborn = reborn.intersection(wanted);

  Repair repair;
  repair.free = there.without(wanted);
  repair.free.insert(reborn.intersection(there));
  repair.allocate = wanted.without(there);
  repair.lost = repair.allocate.without(current_.born).without(committing_.born);
  repair.allocate.insert(reborn);
  return repair;
}

std::vector<BlockRange> BlockLedger::repaired() {
  MutexLock lock(mutex_);
  const BlockSet doubtful = freeing_;
  note_freed(doubtful);
  return doubtful.ranges();
}

}  // namespace brickfs
