// SPDX-License-Identifier: Apache-2.0
#include "transport/onesided/handle_map.h"

#include "transport/brick/limits.h"

namespace brickfs::onesided {
namespace {

bool is_same(const Handle& a, const Handle& b) {
  return a.remote_address == b.remote_address && a.blocks.start == b.blocks.start && a.blocks.count == b.blocks.count &&
         a.access == b.access;
}

}  // namespace

Mapping* HandleMap::at(uint32_t remote_key) const {
  const uint32_t place = remote_key % kPlaces;
  Chunk* const chunk = chunks_[place / kChunkPlaces].load(std::memory_order_acquire);
  return chunk == nullptr ? nullptr : &(*chunk)[place % kChunkPlaces];
}

// The remote key of a place that nobody has.
Result<uint32_t> HandleMap::take_place() {
  if (!free_.empty()) {
    const uint32_t key = free_.back();
    free_.pop_back();
    return key;
  }
  const uint32_t place = places_;
  if (place == kPlaces) return Error(ENOMEM, "too many mapped runs of blocks");
  if (place % kChunkPlaces == 0) {
    made_.push_back(std::make_unique<Chunk>());
    chunks_[place / kChunkPlaces].store(made_.back().get(), std::memory_order_release);
  }
  ++places_;
  return kPlaces + place;
}

Result<calls::Mapped> HandleMap::add(calls::Mapped mapped) {
  if (mapped.keys.size() != mapped.handles.size()) return Error(EPROTO, "handles without keys");
  MutexLock lock(mutex_);
  for (size_t i = 0; i < mapped.handles.size(); ++i) {
    const uint32_t id = mapped.handles[i].remote_key;
    const uint32_t key = TRY(take_place());
    Mapping& mapping = *at(key);
    if (id == 0 || !by_id_.emplace(id, &mapping).second) return Error(EPROTO, "a handle that was there before");
    mapped.handles[i].remote_key = key;
    mapping.handle = mapped.handles[i];
    mapping.id = id;
    for (size_t pair = 0; pair < mapping.keys.size(); ++pair) {
      const auto early = early_[pair].extract(id);
      mapping.keys[pair].store(early ? early.mapped() : mapped.keys[i][pair], std::memory_order_relaxed);
    }
    mapping.live.store(key);
  }
  return mapped;
}

// The brick may answer MAP before the queue pair is there, and the client read that after the queue pair's KEYS.
void HandleMap::add_keys(const calls::Keys& asked, std::span<const calls::KeyRecord> keys) {
  MutexLock lock(mutex_);
  KeysById& early = early_[asked.pair];
  if (asked.after == 0) early.clear();
  for (const calls::KeyRecord& record : keys) {
    const auto found = by_id_.find(record.id);
    if (found != by_id_.end()) {
      found->second->keys[asked.pair].store(record.key, std::memory_order_relaxed);
    } else if (early.size() < kEarlyKeys) {
      early.emplace(record.id, record.key);
    }
  }
}

// Counted before it looks whether the mapping is live, while take_out() ends its life before anybody asks for its
// users: it is never made anew under one who has found it live.
Mapping* HandleMap::use(const Handle& handle) {
  Mapping* const mapping = at(handle.remote_key);
  if (mapping == nullptr) return nullptr;
  mapping->users.fetch_add(1);
  const bool live = handle.remote_key != 0 && mapping->live.load() == handle.remote_key;
  if (live && is_same(mapping->handle, handle)) return mapping;
  release(*mapping);
  return nullptr;
}

std::vector<Mapping*> HandleMap::take_out(BlockRange blocks) {
  std::vector<Mapping*> taken;
  MutexLock lock(mutex_);
  for (const auto& [id, mapping] : by_id_) {
    const BlockRange& held = mapping->handle.blocks;
    const bool covers = held.start < blocks.end() && blocks.start < held.end();
    if (covers && mapping->live.exchange(0) != 0) taken.push_back(mapping);
  }
  return taken;
}

void HandleMap::put_back(std::span<Mapping* const> taken) {
  MutexLock lock(mutex_);
  for (Mapping* const mapping : taken) mapping->live.store(mapping->handle.remote_key);
}

void HandleMap::forget(std::span<Mapping* const> taken) {
  MutexLock lock(mutex_);
  for (const Mapping* const mapping : taken) {
    by_id_.erase(mapping->id);
    const uint32_t key = mapping->handle.remote_key + kPlaces;  // the next number, but not 0
    free_.push_back(key < kPlaces ? key + kPlaces : key);
  }
}

}  // namespace brickfs::onesided
