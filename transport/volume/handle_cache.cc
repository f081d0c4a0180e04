// SPDX-License-Identifier: Apache-2.0
#include "transport/volume/handle_cache.h"

#include <algorithm>

#include "transport/base/check.h"

namespace brickfs {

bool HandleCache::Mapping::acquire() {
  int32_t now = uses.load(std::memory_order_relaxed);
  do {
    if (now < 0) return false;
  } while (!uses.compare_exchange_weak(now, now + 1, std::memory_order_acq_rel, std::memory_order_relaxed));
  return true;
}

bool HandleCache::Mapping::give_up() {
  if (former != nullptr && former->uses.load(std::memory_order_acquire) > 0) return false;
  int32_t unused = 0;
  return uses.compare_exchange_strong(unused, kGone, std::memory_order_acq_rel);
}

HandleCache::Lease::~Lease() {
  if (mapping_ != nullptr) cache_->release(*mapping_);
}

const Handle& HandleCache::Lease::handle() const { return mapping_->handle; }

void HandleCache::Lease::written(uint64_t generation) const {
  uint64_t last = mapping_->last_write.load(std::memory_order_relaxed);
  while (last < generation &&
         !mapping_->last_write.compare_exchange_weak(last, generation, std::memory_order_release)) {
  }
}

HandleCache::Claim::~Claim() {
  if (cache_ != nullptr) cache_->end_claim(blocks_);
}

void HandleCache::release(Mapping& mapping) {
  if (mapping.uses.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  if (waiting_.load(std::memory_order_seq_cst) == 0) return;
  MutexLock lock(control_);
  changed_.notify_all();
}

void HandleCache::end_claim(const BlockSet& blocks) {
  MutexLock lock(control_);
  claimed_.erase(blocks);
  changed_.notify_all();
}

std::shared_ptr<HandleCache::Mapping> HandleCache::look_up(BlockAddress block) {
  Shard& shard = shard_of(block);
  SharedLock lock(shard.mutex);
  const auto found = shard.by_block.find(raw(block));
  return found == shard.by_block.end() ? nullptr : found->second;
}

HandleCache::Lease HandleCache::find(BlockAddress block, Access access) {
  std::shared_ptr<Mapping> mapping = look_up(block);
  if (mapping == nullptr || (access == Access::kReadWrite && !mapping->writable()) || !mapping->acquire()) return {};
  if (!mapping->touched.load(std::memory_order_relaxed)) mapping->touched.store(true, std::memory_order_relaxed);
  return Lease(this, std::move(mapping));
}

HandleCache::Claim HandleCache::claim_missing(BlockAddress first, uint64_t most, Access access) {
  MutexLock lock(control_);
  Claim claim;
  for (;;) {
    // Mappings come and go under control_ only, so what is seen here stays.
    BlockRange wanted{first, 1};
    std::shared_ptr<Mapping> mapping = look_up(first);
    if (mapping != nullptr) {
      if (access == Access::kRead || mapping->writable()) return claim;
      wanted = mapping->handle.blocks;
    }
    if (!claimed_.intersects(wanted)) {
      if (mapping == nullptr) {
        while (wanted.count < most && !claimed_.intersects({wanted.end(), 1}) && look_up(wanted.end()) == nullptr) {
          ++wanted.count;
        }
      }
      claimed_.insert(wanted);
      claim.cache_ = this;
      claim.blocks_.insert(wanted);
      claim.former_ = std::move(mapping);
      return claim;
    }
    changed_.wait(lock);
  }
}

void HandleCache::shorten(Claim& claim, uint64_t keep) {
  const BlockRange range = claim.range();
  if (keep >= range.count || claim.former_ != nullptr) return;
  const BlockRange rest{block_after(range.start, keep), range.count - keep};
  claim.blocks_.erase(rest);
  MutexLock lock(control_);
  claimed_.erase(rest);
  changed_.notify_all();
}

Result<HandleCache::Lease> HandleCache::insert(Claim claim, std::span<const Handle> handles, Access access,
                                               BlockAddress leased) {
  const BlockRange range = claim.range();
  BlockAddress next = range.start;
  for (const Handle& handle : handles) {
    if (!is_valid(handle.blocks) || handle.blocks.start != next || raw(handle.blocks.end()) > raw(range.end()) ||
        (access == Access::kReadWrite && handle.access != access)) {
      return Error(EPROTO, "handles that do not cover what was mapped");
    }
    next = handle.blocks.end();
  }
  if (next != range.end()) return Error(EPROTO, "handles that do not cover what was mapped");

  Lease lease;
  MutexLock lock(control_);
  if (claim.former_ != nullptr) remove(*claim.former_);
  for (const Handle& handle : handles) {
    auto mapping = std::make_shared<Mapping>(handle);
    mapping->former = claim.former_;
    if (leased >= handle.blocks.start && leased < handle.blocks.end()) {
      mapping->uses.store(1, std::memory_order_relaxed);
      lease = Lease(this, mapping);
    }
    publish(mapping);
  }
  return lease;
}

void HandleCache::publish(const std::shared_ptr<Mapping>& mapping) {
  const BlockRange blocks = mapping->handle.blocks;
  for (uint64_t i = 0; i < blocks.count; ++i) {
    const BlockAddress block = block_after(blocks.start, i);
    Shard& shard = shard_of(block);
    ExclusiveLock lock(shard.mutex);
    shard.by_block[raw(block)] = mapping;
  }
  mapped_blocks_.fetch_add(blocks.count, std::memory_order_relaxed);
  if (mapping->writable()) writable_blocks_.fetch_add(blocks.count, std::memory_order_relaxed);
}

void HandleCache::remove(const Mapping& mapping) {
  const BlockRange blocks = mapping.handle.blocks;
  for (uint64_t i = 0; i < blocks.count; ++i) {
    const BlockAddress block = block_after(blocks.start, i);
    Shard& shard = shard_of(block);
    ExclusiveLock lock(shard.mutex);
    shard.by_block.erase(raw(block));
  }
  mapped_blocks_.fetch_sub(blocks.count, std::memory_order_relaxed);
  if (mapping.writable()) writable_blocks_.fetch_sub(blocks.count, std::memory_order_relaxed);
}

void HandleCache::collect_cold(Shard& shard, uint64_t committed, bool writable,
                               std::vector<std::shared_ptr<Mapping>>& cold) {
  SharedLock lock(shard.mutex);
  for (const auto& [block, mapping] : shard.by_block) {
    if (block != raw(mapping->handle.blocks.start)) continue;  // once for each mapping
    if (writable && !mapping->writable()) continue;
    if (mapping->uses.load(std::memory_order_relaxed) != 0) continue;
    if (mapping->last_write.load(std::memory_order_acquire) > committed) continue;
    if (mapping->touched.exchange(false, std::memory_order_relaxed)) continue;
    cold.push_back(mapping);
  }
}

HandleCache::Claim HandleCache::take_cold(uint64_t blocks, uint64_t committed, bool writable) {
  Claim claim;
  MutexLock lock(control_);
  uint64_t taken = 0;
  // The second time around nothing is touched any more, but by those who came meanwhile.
  for (size_t step = 0; step < 2 * kShards && taken < blocks; ++step) {
    std::vector<std::shared_ptr<Mapping>> cold;
    collect_cold(shards_[hand_++ % kShards], committed, writable, cold);
    for (const auto& mapping : cold) {
      if (taken >= blocks) break;
      if (claimed_.intersects(mapping->handle.blocks) || !mapping->give_up()) continue;
      if (mapping->last_write.load(std::memory_order_acquire) > committed) {  // by one who has just let go of it
        mapping->take_back();
        continue;
      }
      remove(*mapping);
      claim.blocks_.insert(mapping->handle.blocks);
      taken += mapping->handle.blocks.count;
    }
  }
  if (taken == 0) return claim;
  claim.cache_ = this;
  claimed_.insert(claim.blocks_);
  return claim;
}

HandleCache::Retire HandleCache::retire(BlockRange blocks, uint64_t committed, Claim& claim) {
  MutexLock lock(control_);
  BlockSet reach;
  reach.insert(blocks);
  std::vector<std::shared_ptr<Mapping>> mappings;
  for (uint64_t i = 0; i < blocks.count;) {
    std::shared_ptr<Mapping> mapping = look_up(block_after(blocks.start, i));
    if (mapping == nullptr) {
      ++i;
      continue;
    }
    i = (raw(mapping->handle.blocks.end()) - raw(blocks.start)) / kBlockBytes;
    reach.insert(mapping->handle.blocks);
    mappings.push_back(std::move(mapping));
  }
  for (const BlockRange& range : reach.ranges()) {
    if (claimed_.intersects(range)) return Retire::kInUse;
  }
  BlockSet freed;
  freed.insert(blocks);
  Retire outcome = Retire::kDone;
  size_t given_up = 0;
  for (const auto& mapping : mappings) {
    if (!mapping->give_up()) {
      outcome = Retire::kInUse;
      break;
    }
    ++given_up;
    if (mapping->last_write.load(std::memory_order_acquire) > committed && !freed.contains(mapping->handle.blocks)) {
      outcome = Retire::kDirty;
      break;
    }
  }
  if (outcome != Retire::kDone) {
    for (size_t i = 0; i < given_up; ++i) mappings[i]->take_back();
    return outcome;
  }
  for (const auto& mapping : mappings) remove(*mapping);
  claimed_.insert(reach);
  claim.cache_ = this;
  claim.blocks_ = std::move(reach);
  return outcome;
}

void HandleCache::await_change(std::chrono::milliseconds timeout) {
  waiting_.fetch_add(1, std::memory_order_seq_cst);
  {
    MutexLock lock(control_);
    changed_.wait_for(lock, timeout);
  }
  waiting_.fetch_sub(1, std::memory_order_seq_cst);
}

void HandleCache::clear() {
  MutexLock lock(control_);
  for (Shard& shard : shards_) {
    ExclusiveLock shard_lock(shard.mutex);
    shard.by_block.clear();
  }
  mapped_blocks_.store(0, std::memory_order_relaxed);
  writable_blocks_.store(0, std::memory_order_relaxed);
}

}  // namespace brickfs
