// SPDX-License-Identifier: Apache-2.0
// Which blocks exist: alloc, free, list. block_residency.cc maps and evicts them, block_commit.cc makes them durable.
#include "server/store/block_store.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "transport/base/check.h"
#include "transport/brick/limits.h"

namespace brickfs {
namespace {

constexpr uint64_t kBlocksPerListPage = 65'536;  // looked at under the lock
constexpr uint64_t kHeldBack = 17;               // blocks; fs/space/block_budget.cc holds back one less

}  // namespace

BlockStore::BlockStore(Pool& pool, StoreFile* store, KeptTable* kept)
    : pool_(pool), store_(store), kept_(kept), capacity_(store != nullptr ? store->slots() : pool.frames()) {
  if (store != nullptr) free_slots_.add(0, store->slots());
}

void BlockStore::add_volume(VolumeId volume, uint64_t quota_blocks) {
  MutexLock lock(mutex_);
  auto added = std::make_unique<Volume>();
  added->quota = quota_blocks;
  CHECK(volumes_.emplace(static_cast<uint32_t>(volume), std::move(added)).second);
}

void BlockStore::set_quota(VolumeId volume, uint64_t quota_blocks) {
  MutexLock lock(mutex_);
  volume_of(volume).quota = quota_blocks;
}

Status BlockStore::change_quota(VolumeId volume_id, uint64_t quota_blocks) {
  MutexLock lock(mutex_);
  Volume& volume = volume_of(volume_id);
  if (volume.blocks.size() > quota_blocks) return Error(EDQUOT, "more blocks are allocated");
  volume.quota = quota_blocks;
  return {};
}

Status BlockStore::free_all(VolumeId volume) {
  for (ListPage page = list(volume, BlockAddress{0}); !page.extents.empty(); page = list(volume, BlockAddress{0})) {
    for (BlockRange blocks : page.extents) {
      while (blocks.count > 0) {
        const BlockRange part{blocks.start, std::min(blocks.count, limits::kBlocksPerCall)};
        TRY(free(volume, part));
        blocks = {part.end(), blocks.count - part.count};
      }
    }
  }
  return {};
}

void BlockStore::remove_volume(VolumeId volume) {
  MutexLock lock(mutex_);
  CHECK(volume_of(volume).blocks.empty());
  volumes_.erase(static_cast<uint32_t>(volume));
}

void BlockStore::adopt(std::span<const StoreFile::Entry> entries) {
  MutexLock lock(mutex_);
  for (const StoreFile::Entry& entry : entries) {
    Volume& volume = volume_of(VolumeId{entry.volume});
    Block& block = volume.blocks[entry.address];
    block.volume = &volume;
    block.slot = entry.slot;
    CHECK(free_slots_.take(entry.slot) == entry.slot);
    ++used_;
  }
}

void BlockStore::set_aside(std::span<const uint32_t> slots) {
  MutexLock lock(mutex_);
  for (const uint32_t slot : slots) CHECK(free_slots_.take(slot) == slot);
  used_ += slots.size();
}

void BlockStore::adopt(std::span<const KeptTable::Entry> entries) {
  MutexLock lock(mutex_);
  for (const KeptTable::Entry& entry : entries) {
    Volume& volume = volume_of(VolumeId{entry.volume});
    Block& block = volume.blocks[entry.address];
    block.volume = &volume;
    give_frame(block, entry.frame);
    block.blank = entry.blank;
    enlist_if_idle(block);
    ++used_;
  }
}

BlockStore::Volume& BlockStore::volume_of(VolumeId volume) const {
  const auto found = volumes_.find(static_cast<uint32_t>(volume));
  CHECK(found != volumes_.end());
  return *found->second;
}

Result<std::vector<BlockStore::Block*>> BlockStore::settled_blocks(Volume& volume, BlockRange blocks, MutexLock& lock) {
  std::vector<Block*> found;
  while (true) {
    found.clear();
    bool moving = false;
    auto place = volume.blocks.lower_bound(blocks.start);
    for (uint64_t i = 0; i < blocks.count && !moving; ++i, ++place) {
      if (place == volume.blocks.end() || place->first != block_after(blocks.start, i)) {
        return Error(ENOENT, "a block is not allocated");
      }
      moving = place->second.moving;
      found.push_back(&place->second);
    }
    if (!moving) return found;
    moved_.wait(lock);
  }
}

void BlockStore::stop_moving(std::span<Block* const> blocks) {
  for (Block* block : blocks) block->moving = false;
  moved_.notify_all();
}

Status BlockStore::check_allocated(VolumeId volume, BlockRange blocks) const {
  MutexLock lock(mutex_);
  const Blocks& existing = volume_of(volume).blocks;
  auto place = existing.lower_bound(blocks.start);
  for (uint64_t i = 0; i < blocks.count; ++i, ++place) {
    if (place == existing.end() || place->first != block_after(blocks.start, i)) {
      return Error(ENOENT, "a block is not allocated");
    }
  }
  return {};
}

// Free slots for all of the blocks, waiting for syncs if freed ones must become usable first.
Status BlockStore::reserve(Volume& volume, BlockRange blocks) {
  while (true) {
    const auto next = volume.blocks.lower_bound(blocks.start);
    if (next != volume.blocks.end() && next->first < blocks.end()) return Error(EEXIST, "a block exists already");
    const uint64_t used = volume.blocks.size();
    if (used > volume.quota || blocks.count > volume.quota - used)
      return Error(EDQUOT, "the volume's quota is used up");
    if (blocks.count > capacity_ - used_) return Error(ENOSPC, "the brick is full");
    if (store_ == nullptr || free_slots_.count() >= blocks.count) return {};
    mutex_.unlock();
    const Status synced = sync();
    mutex_.lock();
    TRY(synced);
    if (free_slots_.count() < blocks.count) TRY(last_punch_);
  }
}

Status BlockStore::alloc(VolumeId volume_id, BlockRange blocks) {
  MutexLock lock(mutex_);
  Volume& volume = volume_of(volume_id);
  TRY(reserve(volume, blocks));
  std::vector<Block*> made;
  uint32_t slot = kNone - 1;
  uint32_t frame = frame_before(volume, blocks.start);
  auto place = volume.blocks.lower_bound(blocks.start);
  if (place != volume.blocks.begin()) slot = std::prev(place)->second.slot;
  for (uint64_t i = 0; i < blocks.count; ++i) {
    Block& block = volume.blocks.emplace_hint(place, block_after(blocks.start, i), Block{})->second;
    block.volume = &volume;
    block.blank = true;
    block.moving = true;
    if (store_ != nullptr) block.slot = slot = *free_slots_.take(slot + 1);
    if (kept_ != nullptr) give_frame(block, frame = *pool_.take(frame + 1));
    made.push_back(&block);
  }
  used_ += blocks.count;
  lock.unlock();
  Status written = reserve_room(made);
  if (written.ok()) {
    written = write_entries(volume_id, blocks, made);
  } else {
    put_slots_back(made);
  }
  lock.lock();
  if (!written.ok()) {
    erase(volume, blocks, made);
    return written;
  }
  stop_moving(made);
  return {};
}

// On the disk, so that what is written to the blocks can be committed however full it gets. If it is full what was
// freed gives its room back first.
Status BlockStore::reserve_room(std::span<Block* const> made) {
  if (store_ == nullptr) return {};
  MutexLock lock(mutex_);
  for (;;) {
    const uint64_t clearings = clearings_;
    lock.unlock();
    const Status reserved = reserve_slots(made);
    lock.lock();
    if (reserved.ok() || !reserved.error().is(ENOSPC)) return reserved;
    while (being_cleared_ > 0 && clearings_ == clearings) cleared_changed_.wait(lock);
    if (clearings_ != clearings) continue;
    if (freed_slots_.empty()) return reserved;
    lock.unlock();
    TRY(sync());
    lock.lock();
    if (clearings_ == clearings) return reserved;
  }
}

Status BlockStore::reserve_slots(std::span<Block* const> made) {
  for (const Slots& run : slots_of(made)) TRY(store_->reserve(run.first, run.count()));
  return {};
}

// Of blocks that there will not be, for want of room: the slots are as they were when they were taken, zeros and
// without entries, but that some have got room.
void BlockStore::put_slots_back(std::span<Block* const> made) {
  SlotSet as_before;
  for (const Slots& run : slots_of(made)) {
    if (store_->punch(run.first, run.count()).ok()) as_before.insert(run);
  }
  MutexLock lock(mutex_);
  for (Block* block : made) {
    if (!as_before.contains_all({block->slot, block->slot + 1})) continue;
    free_slots_.add(block->slot);
    block->slot = kNone;
  }
}

std::vector<BlockStore::Slots> BlockStore::slots_of(std::span<Block* const> blocks) {
  std::vector<Slots> runs;
  for (const Block* block : blocks) {
    if (runs.empty() || runs.back().end != block->slot) runs.push_back({block->slot, block->slot});
    ++runs.back().end;
  }
  return runs;
}

Status BlockStore::write_entries(VolumeId volume, BlockRange blocks, std::span<Block* const> made) {
  if (kept_ != nullptr) kept_->add(static_cast<uint32_t>(volume), blocks, frames_of(made));
  if (store_ == nullptr) return {};
  Status status;
  for (uint64_t i = 0; i < made.size() && status.ok(); ++i) {
    status = store_->write_entry({static_cast<uint32_t>(volume), block_after(blocks.start, i), made[i]->slot});
  }
  if (status.ok()) return {};
  for (const Block* block : made) {
    const Status cleared = store_->clear_entry(block->slot);
    if (!cleared.ok()) break;  // the client finds the block in the next list(), as after a crash
  }
  return status;
}

std::vector<uint32_t> BlockStore::frames_of(std::span<Block* const> blocks) {
  std::vector<uint32_t> frames;
  for (const Block* block : blocks) frames.push_back(block->frame);
  return frames;
}

Status BlockStore::free(VolumeId volume_id, BlockRange blocks) {
  MutexLock lock(mutex_);
  Volume& volume = volume_of(volume_id);
  std::vector<Block*> doomed;
  while (true) {
    doomed = TRY(settled_blocks(volume, blocks, lock));
    if (std::ranges::any_of(doomed, [](const Block* block) { return block->mappings > 0; })) {
      return Error(EBUSY, "a block is mapped");
    }
    if (std::ranges::none_of(doomed, [](const Block* block) { return block->holds > 0; })) break;
    moved_.wait(lock);
  }
  for (Block* block : doomed) {
    unlist(*block);
    block->moving = true;
  }
  lock.unlock();
  const Status cleared = clear_entries(volume_id, blocks, doomed);
  lock.lock();
  if (cleared.ok()) {
    erase(volume, blocks, doomed);
    return {};
  }
  stop_moving(doomed);
  for (Block* block : doomed) enlist_if_idle(*block);
  return cleared;
}

Status BlockStore::clear_entries(VolumeId volume, BlockRange blocks, std::span<Block* const> doomed) {
  if (kept_ != nullptr) kept_->remove(static_cast<uint32_t>(volume), blocks, frames_of(doomed));
  for (uint64_t i = 0; store_ != nullptr && i < doomed.size(); ++i) {
    const Status cleared = store_->clear_entry(doomed[i]->slot);
    if (cleared.ok()) continue;
    while (i-- > 0) {  // as they were
      TRY(store_->write_entry({static_cast<uint32_t>(volume), block_after(blocks.start, i), doomed[i]->slot}));
    }
    return cleared;
  }
  for (const Block* block : doomed) {
    if (block->shadow) store_->drop_shadow(block->slot);
  }
  return {};
}

// Precondition: moving, no entries in the store.
void BlockStore::erase(Volume& volume, BlockRange blocks, std::span<Block* const> doomed) {
  for (Block* block : doomed) {
    if (block->frame != kNone) drop_frame(*block);
    if (block->suspect) --volume.suspect;
    if (block->slot != kNone) freed_slots_.insert({block->slot, block->slot + 1});
  }
  volume.blocks.erase(volume.blocks.find(blocks.start), volume.blocks.lower_bound(blocks.end()));
  used_ -= blocks.count;
  moved_.notify_all();
}

ListPage BlockStore::list(VolumeId volume, BlockAddress cursor) const {
  MutexLock lock(mutex_);
  const Blocks& existing = volume_of(volume).blocks;
  ListPage page;
  uint64_t seen = 0;
  for (auto place = existing.lower_bound(cursor); place != existing.end(); ++place, ++seen) {
    if (!page.extents.empty() && page.extents.back().end() == place->first && seen < kBlocksPerListPage) {
      ++page.extents.back().count;
    } else if (page.extents.size() < limits::kExtentsPerListPage && seen < kBlocksPerListPage) {
      page.extents.push_back({place->first, 1});
    } else {
      page.cursor = place->first;
      break;
    }
  }
  return page;
}

uint64_t BlockStore::suspect_blocks(VolumeId volume) const {
  MutexLock lock(mutex_);
  return volume_of(volume).suspect;
}

BlockStore::Usage BlockStore::usage(VolumeId volume_id) const {
  MutexLock lock(mutex_);
  const Volume& volume = volume_of(volume_id);
  return {volume.blocks.size(), volume.mapped, volume.resident};
}

BlockStore::Counts BlockStore::counts() const {
  Counts counts;
  if (store_ != nullptr) {
    counts.store_errors = store_->errors();
    counts.disk_room_bytes = store_->room_bytes();
  }
  counts.commits = commits_.load();
  counts.committed_bytes = committed_bytes_.load();
  counts.loads = loads_.load();
  counts.evictions = evictions_.load();
  counts.write_backs = write_backs_.load();
  MutexLock lock(mutex_);
  counts.used = used_;
  counts.resident = pool_.frames() - pool_.free_frames();
  for (const auto& [id, volume] : volumes_) counts.suspect += volume->suspect;
  return counts;
}

// Blocks for which the store's disk has room, or gets it as soon as somebody wants it. What is cleared meanwhile counts
// once at least: who is told too much waits in alloc().
uint64_t BlockStore::room_on_disk() const {
  if (store_ == nullptr) return UINT64_MAX;
  const auto freed = [this] {
    MutexLock lock(mutex_);
    return freed_slots_.count() + being_cleared_;
  };
  const uint64_t before = freed();
  const uint64_t on_disk = store_->room_bytes() / kBlockBytes;
  return on_disk + std::max(before, freed());
}

bool BlockStore::disk_is_full() const {
  const uint64_t on_disk = room_on_disk();
  MutexLock lock(mutex_);
  return on_disk < kHeldBack && on_disk < capacity_ - used_;
}

void BlockStore::fill_stat(VolumeId volume_id, BrickStat& stat) const {
  const uint64_t on_disk = room_on_disk();
  MutexLock lock(mutex_);
  const Volume& volume = volume_of(volume_id);
  const uint64_t used = volume.blocks.size();
  const uint64_t room = capacity_ - used_;
  stat.volume_capacity_blocks = std::min(volume.quota, capacity_);
  stat.volume_used_blocks = used;
  stat.volume_mapped_blocks = volume.mapped;
  stat.brick_capacity_blocks = capacity_;
  stat.brick_used_blocks = used_;
  stat.memory_blocks = pool_.frames();
  stat.resident_blocks = pool_.frames() - pool_.free_frames();
  stat.allocatable_blocks = std::min({room, on_disk, volume.quota - std::min(volume.quota, used)});
  stat.commits = commits_.load();
  stat.committed_bytes = committed_bytes_.load();
}

}  // namespace brickfs
