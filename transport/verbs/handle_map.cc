// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/handle_map.h"

#include "transport/limits.h"
#include "transport/wire.h"

namespace brickfs::verbs {

Result<std::vector<Handle>> HandleMap::add(std::span<const std::byte> body, const BlockRange& asked, Access access) {
  const auto records = TRY(wire::decode_array<LaneHandle>(body, limits::kBlocksPerCall));
  std::vector<std::shared_ptr<Mapping>> made;
  BlockAddress next = asked.start;
  uint64_t missing = asked.count;
  for (const LaneHandle& record : records) {
    if (BlockAddress{record.start} != next || record.count == 0 || record.count > missing || record.id == 0) {
      return Error(EPROTO, "handles for other blocks than were mapped");
    }
    auto mapping = std::make_shared<Mapping>();
    mapping->handle = {{next, record.count}, access, record.address, record.id};
    for (size_t lane = 0; lane < record.keys.size(); ++lane) {
      mapping->keys[lane].store(record.keys[lane], std::memory_order_relaxed);
    }
    next = mapping->handle.blocks.end();
    missing -= record.count;
    made.push_back(std::move(mapping));
  }
  if (missing != 0) return Error(EPROTO, "handles for fewer blocks than were mapped");
  std::vector<Handle> handles;
  ExclusiveLock lock(mutex_);
  for (auto& mapping : made) {
    handles.push_back(mapping->handle);
    if (!by_id_.emplace(mapping->handle.remote_key, std::move(mapping)).second) {
      return Error(EPROTO, "a handle that was there before");
    }
  }
  return handles;
}

void HandleMap::add_keys(uint32_t lane, std::span<const KeyRecord> keys) {
  SharedLock lock(mutex_);
  for (const KeyRecord& record : keys) {
    const auto found = by_id_.find(record.id);
    if (found != by_id_.end()) found->second->keys[lane].store(record.key, std::memory_order_relaxed);
  }
}

Mapping* HandleMap::use(const Handle& handle) {
  SharedLock lock(mutex_);
  const auto found = by_id_.find(handle.remote_key);
  if (found == by_id_.end()) return nullptr;
  Mapping& mapping = *found->second;
  const Handle& known = mapping.handle;
  if (known.remote_address != handle.remote_address || known.blocks.start != handle.blocks.start ||
      known.blocks.count != handle.blocks.count || known.access != handle.access) {
    return nullptr;
  }
  mapping.users.fetch_add(1, std::memory_order_relaxed);
  return &mapping;
}

std::vector<std::shared_ptr<Mapping>> HandleMap::take_out(BlockRange blocks) {
  std::vector<std::shared_ptr<Mapping>> taken;
  ExclusiveLock lock(mutex_);
  absl::erase_if(by_id_, [&](auto& entry) {
    const BlockRange& held = entry.second->handle.blocks;
    const bool covers = held.start < blocks.end() && blocks.start < held.end();
    if (covers) taken.push_back(std::move(entry.second));
    return covers;
  });
  return taken;
}

void HandleMap::put_back(std::span<const std::shared_ptr<Mapping>> taken) {
  ExclusiveLock lock(mutex_);
  for (const auto& mapping : taken) by_id_.emplace(mapping->handle.remote_key, mapping);
}

}  // namespace brickfs::verbs
