// SPDX-License-Identifier: Apache-2.0
// Which blocks are in memory: map, unmap, eviction.
//
// What a client left uncommitted is in no order that a client would give it: its journal may tell of data that is not
// in the store yet. So a suspect block's slot keeps what was committed, and is newer by a commit, or not at all.

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>

#include "server/store/block_store.h"
#include "transport/base/check.h"
#include "transport/base/log.h"

namespace brickfs {

void BlockStore::add_mapping(Block& block, Access access) {
  unlist(block);
  if (block.mappings++ == 0) ++block.volume->mapped;
  if (access == Access::kReadWrite) ++block.writers;
}

void BlockStore::drop_mapping(Block& block, Access access) {
  CHECK(block.mappings > 0);
  if (--block.mappings == 0) --block.volume->mapped;
  if (access == Access::kReadWrite) --block.writers;
}

void BlockStore::enlist_if_idle(Block& block) {
  if (block.mappings > 0 || block.holds > 0 || block.moving || block.frame == kNone) return;
  unlist(block);
  block.idle_list = block.dirty ? &dirty_idle_ : &clean_idle_;
  block.idle_place = block.idle_list->insert(block.idle_list->end(), &block);
}

void BlockStore::unlist(Block& block) {
  if (block.idle_list != nullptr) block.idle_list->erase(block.idle_place);
  block.idle_list = nullptr;
}

void BlockStore::give_frame(Block& block, uint32_t frame) {
  block.frame = frame;
  ++block.volume->resident;
}

void BlockStore::drop_frame(Block& block) {
  --block.volume->resident;
  pool_.give_back(block.frame);
  block.frame = kNone;
}

// Of the block that precedes `address`, so that neighbouring blocks get neighbouring frames if they can.
uint32_t BlockStore::frame_before(Volume& volume, BlockAddress address) const {
  const auto place = volume.blocks.lower_bound(address);
  const uint32_t frame = place == volume.blocks.begin() ? kNone : std::prev(place)->second.frame;
  return frame != kNone ? frame : kNone - 1;
}

Result<std::vector<std::byte*>> BlockStore::map(VolumeId volume_id, BlockRange range, Access access) {
  MutexLock lock(mutex_);
  Volume& volume = volume_of(volume_id);
  const std::vector<Block*> blocks = TRY(settled_blocks(volume, range, lock));
  std::vector<Block*> absent;
  uint64_t lacking = 0;
  for (Block* block : blocks) {
    add_mapping(*block, access);
    const bool has_frame = block->frame != kNone;
    if (has_frame && !(kept_ != nullptr && block->blank)) continue;
    if (!has_frame) ++lacking;
    block->moving = true;
    absent.push_back(block);
  }
  Status status = find_frames(lacking, lock);
  if (status.ok()) {
    uint32_t frame = frame_before(volume, range.start);
    for (Block* block : blocks) {
      if (block->frame == kNone) give_frame(*block, *pool_.take(frame + 1));
      frame = block->frame;
    }
    lock.unlock();
    status = load(absent);
    lock.lock();
  }
  std::vector<std::byte*> memory;
  for (Block* block : blocks) {
    if (status.ok()) {
      if (access == Access::kReadWrite) note_writer(*block);
      if (kept_ != nullptr) block->blank = false;
      memory.push_back(pool_.bytes(block->frame).data());
    } else {
      drop_mapping(*block, access);
      if (block->moving && block->frame != kNone && kept_ == nullptr) drop_frame(*block);
    }
  }
  stop_moving(absent);
  if (status.ok()) return memory;
  for (Block* block : blocks) enlist_if_idle(*block);
  return status.error();
}

void BlockStore::note_writer(Block& block) {
  ++block.write_mappings_ever;
  block.blank = false;
  block.dirty = true;
}

// Fills the frames of blocks that have just got one, or are mapped for the first time.
Status BlockStore::load(std::span<Block* const> absent) {
  for (const Block* block : absent) {
    if (block->blank || store_ == nullptr) {
      pool_.clear(block->frame);
      if (kept_ != nullptr) kept_->fill(block->frame);
      continue;
    }
    const auto frame = pool_.bytes_to_fill(block->frame);
    const Status read = block->shadow ? store_->read(*block->shadow, frame) : store_->read(block->slot, 0, frame);
    loads_.fetch_add(1, std::memory_order_relaxed);
    if (read.ok()) continue;
    log::error("store {}: cannot read slot {}: {}", store_->path(), block->slot, std::strerror(read.code()));
    return Error(EIO, "reading a block from the store");
  }
  return {};
}

// Frees frames by eviction until `count` are free. ENOMEM if that cannot be.
Status BlockStore::find_frames(uint64_t count, MutexLock& lock) {
  while (pool_.free_frames() < count) {
    if (pool_.free_frames() + clean_idle_.size() + dirty_idle_.size() >= count) {
      TRY(evict_one());
    } else if (soon_idle_ > 0) {
      moved_.wait(lock);
    } else {
      return Error(ENOMEM, "all memory of the brick is mapped");
    }
  }
  return {};
}

// A clean block goes; if there is none, a dirty one is made clean: one that needs room is tried only once.
Status BlockStore::evict_one() {
  if (clean_idle_.empty()) {
    if (store_idle(*dirty_idle_.front()).ok()) return {};
    const auto needs_none = std::ranges::find(dirty_idle_, false, &Block::suspect);
    if (needs_none != dirty_idle_.end() && store_idle(**needs_none).ok()) return {};
    return clean_idle_.empty() ? Error(ENOMEM, "the store takes no more, so no memory becomes free") : Status();
  }
  evictions_.fetch_add(1, std::memory_order_relaxed);
  Block& block = *clean_idle_.front();
  unlist(block);
  drop_frame(block);
  return {};
}

// Makes a block clean that nobody has mapped.
Status BlockStore::store_idle(Block& block) { return block.suspect ? store_apart(block) : store_writes(block); }

// Makes the slot equal to the frame. Precondition: nobody writes to the block.
Status BlockStore::store_writes(Block& block) {
  begin_storing(block);
  const bool has_shadow = block.shadow != nullptr;
  mutex_.unlock();
  const Status stored = store_->write_differences(block.slot, pool_.bytes(block.frame));
  if (stored.ok() && has_shadow) store_->drop_shadow(block.slot);
  mutex_.lock();
  if (stored.ok()) block.shadow.reset();
  end_storing(block, stored);
  return stored;
}

// Makes slot and shadow together equal to the frame, and leaves the slot as it is.
Status BlockStore::store_apart(Block& block) {
  begin_storing(block);
  mutex_.unlock();
  const auto shadow = store_->write_shadow(block.slot, pool_.bytes(block.frame));
  const Status stored = shadow.ok() ? Status() : shadow.error();
  const bool is_needed = stored.ok() && shadow->pages.any();
  if (!is_needed) store_->drop_shadow(block.slot);  // also a part for which there was room; memory has the block still
  mutex_.lock();
  block.shadow.reset();
  if (is_needed) block.shadow = std::make_unique<StoreFile::Shadow>(*shadow);
  end_storing(block, stored);
  return stored;
}

void BlockStore::begin_storing(Block& block) {
  CHECK(!block.moving);
  unlist(block);
  block.moving = true;
  ++soon_idle_;
}

void BlockStore::end_storing(Block& block, const Status& stored) {
  write_backs_.fetch_add(1, std::memory_order_relaxed);
  if (!stored.ok() && !storing_fails_) {
    log::error("store {}: cannot write ({}): blocks stay in memory{}", store_->path(), std::strerror(stored.code()),
               stored.error().is(ENOSPC) ? "; make room on its disk" : "");
  }
  storing_fails_ = !stored.ok();
  --soon_idle_;
  if (stored.ok()) block.dirty = false;
  stop_moving(std::array{&block});
  enlist_if_idle(block);
}

void BlockStore::unmap(VolumeId volume_id, BlockRange range, Access access, AfterWriting after) {
  MutexLock lock(mutex_);
  Volume& volume = volume_of(volume_id);
  auto place = volume.blocks.find(range.start);
  for (uint64_t i = 0; i < range.count; ++i, ++place) {
    CHECK(place != volume.blocks.end() && place->first == block_after(range.start, i));
    Block& block = place->second;
    const bool last_writer = access == Access::kReadWrite && block.writers == 1;
    // The mapping is dropped only then, so that the block stays. If it cannot be stored it stays in memory, dirty.
    if (last_writer && after == AfterWriting::kStore && store_ != nullptr && !block.suspect) {
      static_cast<void>(store_writes(block));
    }
    if (access == Access::kReadWrite && after == AfterWriting::kSuspect && store_ != nullptr && !block.suspect) {
      block.suspect = true;
      ++volume.suspect;
    }
    drop_mapping(block, access);
    enlist_if_idle(block);
  }
  moved_.notify_all();
}

}  // namespace brickfs
