// SPDX-License-Identifier: Apache-2.0
// Making blocks durable: commit, and the syncs that let freed slots be used again.

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <set>
#include <utility>

#include "server/store/block_store.h"
#include "transport/base/check.h"
#include "transport/base/log.h"
#include "transport/brick/limits.h"

namespace brickfs {

// Each block once, so a commit cannot name more bytes than the volume has; and not all of them in one go under the
// mutex.
Status BlockStore::check_named(VolumeId volume, const CommitPlan& plan) const {
  for (BlockRange blocks : plan.blocks()) {
    while (blocks.count > 0) {
      const BlockRange part{blocks.start, std::min(blocks.count, limits::kBlocksPerCall)};
      TRY(check_allocated(volume, part));
      blocks = {part.end(), blocks.count - part.count};
    }
  }
  return {};
}

Status BlockStore::commit(VolumeId volume, std::span<const CommitRange> ranges, const Abandoned& abandoned) {
  const CommitPlan plan = TRY(CommitPlan::make(ranges));
  TRY(check_named(volume, plan));
  uint64_t bytes = 0;
  // What is committed may refer to blocks just allocated: none of it may reach the disk before the table.
  if (store_ != nullptr && !ranges.empty() && !store_->table_is_durable()) TRY(sync());
  bool unsynced = false;
  for (size_t i = 0; store_ != nullptr && i < plan.rounds().size(); ++i) {
    if (abandoned()) return Error(ECANCELED, "commit");
    const CommitPlan::Round& round = plan.rounds()[i];
    if (unsynced && !round.empty()) TRY(sync());
    for (const CommitPlan::Bytes& named : round) TRY(write_named(volume, named, abandoned));
    for (const CommitPlan::Bytes& named : round) bytes += named.last - named.first + 1;
    unsynced = unsynced || !round.empty();
  }
  if (store_ != nullptr) {
    TRY(sync());
    clear_suspicion(volume, plan.whole_blocks());
  }
  commits_.fetch_add(1);
  committed_bytes_.fetch_add(bytes);
  return {};
}

Status BlockStore::write_named(VolumeId volume, const CommitPlan::Bytes& named, const Abandoned& abandoned) {
  for (BlockAddress block = block_of(named.first); raw(block) <= named.last; block = block_after(block)) {
    if (abandoned()) return Error(ECANCELED, "commit");
    const uint64_t first = std::max(named.first, raw(block));
    const uint64_t last = std::min(named.last, raw(block) + (kBlockBytes - 1));
    TRY(write_part(volume, block, first - raw(block), last - first + 1));
  }
  return {};
}

// Of one block, if it may differ from its slot. Nearly all of a suspect block was committed before.
Status BlockStore::write_part(VolumeId volume_id, BlockAddress address, uint64_t offset, uint64_t length_bytes) {
  MutexLock lock(mutex_);
  Volume& volume = volume_of(volume_id);
  auto found = volume.blocks.find(address);
  while (found != volume.blocks.end() && found->second.moving) {
    moved_.wait(lock);
    found = volume.blocks.find(address);
  }
  if (found == volume.blocks.end()) return {};  // freed meanwhile
  Block& block = found->second;
  if (!block.dirty && !block.shadow) return {};
  if (block.frame == kNone) return write_from_shadow(block, offset, length_bytes);
  const bool whole = length_bytes == kBlockBytes;
  const bool compare = block.suspect && whole;
  const bool unmapped = block.mappings == 0;
  const bool settles = whole && block.writers == 0;
  const bool drops_shadow = whole && block.shadow;  // the slot gets more than that has, or the frame has more
  const uint32_t write_mappings = block.write_mappings_ever;
  unlist(block);
  ++block.holds;
  if (unmapped) ++soon_idle_;
  lock.unlock();
  const auto bytes = pool_.bytes(block.frame).subspan(offset, length_bytes);
  const Status written =
      compare ? store_->write_differences(block.slot, bytes) : store_->write(block.slot, offset, bytes);
  if (!written.ok()) {
    log::error("store {}: commit cannot write: {}", store_->path(), std::strerror(written.code()));
  }
  if (written.ok() && drops_shadow) store_->drop_shadow(block.slot);
  lock.lock();
  if (written.ok() && drops_shadow) block.shadow.reset();
  if (unmapped) --soon_idle_;
  --block.holds;
  if (written.ok() && settles && block.write_mappings_ever == write_mappings) block.dirty = false;
  enlist_if_idle(block);
  moved_.notify_all();
  return written;
}

// Of a block that is not in memory.
Status BlockStore::write_from_shadow(Block& block, uint64_t offset, uint64_t length_bytes) {
  const bool whole = length_bytes == kBlockBytes;
  const StoreFile::Shadow shadow = *block.shadow;
  block.moving = true;
  mutex_.unlock();
  const auto buffer = std::make_unique_for_overwrite<std::byte[]>(kBlockBytes);
  const std::span<std::byte> bytes(buffer.get(), kBlockBytes);
  Status copied = store_->read(shadow, bytes);
  if (copied.ok()) {
    copied = whole ? store_->write_differences(shadow.slot, bytes)
                   : store_->write(shadow.slot, offset, bytes.subspan(offset, length_bytes));
  }
  if (copied.ok() && whole) store_->drop_shadow(shadow.slot);
  if (!copied.ok()) log::error("store {}: commit cannot write: {}", store_->path(), std::strerror(copied.code()));
  mutex_.lock();
  if (copied.ok() && whole) block.shadow.reset();
  stop_moving(std::array{&block});
  return copied;
}

void BlockStore::clear_suspicion(VolumeId volume_id, std::span<const BlockAddress> settled) {
  while (!settled.empty()) {
    MutexLock lock(mutex_);
    Volume& volume = volume_of(volume_id);
    if (volume.suspect == 0) return;
    const auto some = settled.first(std::min<size_t>(settled.size(), limits::kBlocksPerCall));
    for (const BlockAddress address : some) {
      const auto found = volume.blocks.find(address);
      if (found == volume.blocks.end() || !found->second.suspect) continue;
      found->second.suspect = false;
      --volume.suspect;
    }
    settled = settled.subspan(some.size());
  }
}

// Of the freed slots, those that the next sync's caller clears: not more than he may wait for.
std::vector<BlockStore::Slots> BlockStore::take_freed() {
  constexpr size_t kMostRuns = 256;
  constexpr uint32_t kMostSlots = 1U << 16;
  std::vector<Slots> taken;
  uint32_t left = kMostSlots;
  freed_slots_.for_each([&](Slots run) {
    run.end = run.first + std::min(run.count(), left);
    taken.push_back(run);
    left -= run.count();
    return left > 0 && taken.size() < kMostRuns;
  });
  for (const Slots& run : taken) freed_slots_.erase(run);
  being_cleared_ += kMostSlots - left;
  return taken;
}

Status BlockStore::sync() {
  std::vector<Slots> freed;
  std::vector<Slots> cleared;
  {
    MutexLock lock(mutex_);
    freed = take_freed();
    const SlotSet before = std::exchange(cleared_slots_, {});
    before.for_each([&](Slots run) {
      cleared.push_back(run);
      return true;
    });
  }
  const Status synced = store_->sync();
  Status punched = synced;
  size_t done = 0;
  while (punched.ok() && done < freed.size()) {
    punched = store_->punch(freed[done].first, freed[done].count());
    if (punched.ok()) ++done;
  }
  MutexLock lock(mutex_);
  for (size_t i = 0; i < freed.size(); ++i) {
    (i < done ? cleared_slots_ : freed_slots_).insert(freed[i]);
    being_cleared_ -= freed[i].count();
  }
  if (done > 0) ++clearings_;
  cleared_changed_.notify_all();
  last_punch_ = punched;  // it only keeps slots from being used again
  for (const Slots& run : cleared) {
    if (synced.ok()) {
      free_slots_.add(run.first, run.count());
    } else {
      cleared_slots_.insert(run);
    }
  }
  return synced;
}

// A volume's blocks refer to each other: some of what a client left is worth nothing without the rest.
Status BlockStore::write_back_all(const Progress& progress) {
  if (store_ == nullptr) return {};
  Status stored;
  std::set<const Volume*> failed;
  {
    MutexLock lock(mutex_);
    const std::vector<Block*> dirty(dirty_idle_.begin(), dirty_idle_.end());
    for (size_t done = 0; done < dirty.size(); ++done) {
      if (progress) progress("blocks written to the store", done, dirty.size());
      if (dirty[done]->suspect && failed.contains(dirty[done]->volume)) continue;
      const Status one = store_idle(*dirty[done]);
      if (one.ok()) continue;
      failed.insert(dirty[done]->volume);
      stored = one;
    }
    if (progress) progress("blocks written to the store", dirty.size(), dirty.size());
  }
  TRY(sync());
  TRY(leave_shadows(failed));
  return stored;
}

Status BlockStore::leave_shadows(const std::set<const Volume*>& but) {
  std::vector<StoreFile::Shadow> shadows;
  {
    MutexLock lock(mutex_);
    for (const auto& [id, volume] : volumes_) {
      for (const auto& [address, block] : volume->blocks) {
        if (!block.shadow || but.contains(volume.get())) continue;
        CHECK(!block.dirty);
        shadows.push_back(*block.shadow);
      }
    }
  }
  return shadows.empty() ? Status() : store_->leave_shadows(shadows);
}

}  // namespace brickfs
