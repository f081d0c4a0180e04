// SPDX-License-Identifier: Apache-2.0
#include "server/handle_table.h"

#include <utility>

#include "server/random.h"
#include "transport/limits.h"

namespace brickfs {

struct HandleTable::Revoked::Gate {
  Mutex mutex;
  CondVar opened;
  bool open ABSL_GUARDED_BY(mutex) = false;
};

bool HandleTable::Revoked::wait_until(std::chrono::steady_clock::time_point deadline) const {
  MutexLock lock(gate_->mutex);
  while (!gate_->open) {
    if (!gate_->opened.wait_until(lock, deadline)) return gate_->open;
  }
  return true;
}

void HandleTable::Revoked::wait() const {
  MutexLock lock(gate_->mutex);
  while (!gate_->open) gate_->opened.wait(lock);
}

Result<Handle> HandleTable::add(BlockRange blocks, Access access, std::byte* memory,
                                std::optional<uint32_t> given) {
  auto gate = std::make_shared<Revoked::Gate>();
  const auto open_gate = [gate](const Mapping* mapping) {
    delete mapping;
    MutexLock lock(gate->mutex);
    gate->open = true;
    gate->opened.notify_all();
  };
  Slot slot{std::shared_ptr<const Mapping>(new Mapping{blocks, access, memory}, open_gate), gate};
  ExclusiveLock lock(mutex_);
  if (by_key_.size() >= limits::kHandlesPerSession) return Error(ENOMEM, "too many handles in a session");
  uint32_t key = given ? *given : random_id<uint32_t>();
  while (!given && by_key_.contains(key)) key = random_id<uint32_t>();
  by_key_.emplace(key, std::move(slot));
  for (uint64_t i = 0; i < blocks.count; ++i) keys_of_block_.emplace(block_after(blocks.start, i), key);
  return Handle{.blocks = blocks, .access = access, .remote_address = raw(blocks.start), .remote_key = key};
}

Result<Pin> HandleTable::pin(uint32_t key, uint64_t address, uint64_t length_bytes, Access access) const {
  SharedLock lock(mutex_);
  const auto found = by_key_.find(key);
  if (found == by_key_.end()) return Error(EACCES, "no such handle");
  const Mapping& mapping = *found->second.mapping;
  if (access == Access::kReadWrite && mapping.access != Access::kReadWrite)
    return Error(EACCES, "a handle for reading");
  const uint64_t offset = address - raw(mapping.blocks.start);
  const uint64_t size = mapping.blocks.count * kBlockBytes;
  if (address < raw(mapping.blocks.start) || offset > size || length_bytes > size - offset) {
    return Error(EACCES, "outside of the handle");
  }
  return Pin({mapping.memory + offset, length_bytes}, std::shared_ptr<void>(found->second.mapping, mapping.memory));
}

HandleTable::Revoked HandleTable::take_out(uint32_t key) {
  const auto found = by_key_.find(key);
  Revoked revoked;
  revoked.blocks_ = found->second.mapping->blocks;
  revoked.key_ = key;
  revoked.access_ = found->second.mapping->access;
  revoked.gate_ = found->second.gate;
  for (uint64_t i = 0; i < revoked.blocks_.count; ++i) {
    auto [place, end] = keys_of_block_.equal_range(block_after(revoked.blocks_.start, i));
    while (place != end && place->second != key) ++place;
    if (place != end) keys_of_block_.erase(place);
  }
  by_key_.erase(found);
  return revoked;
}

std::vector<HandleTable::Revoked> HandleTable::revoke(BlockRange blocks) {
  ExclusiveLock lock(mutex_);
  std::vector<Revoked> revoked;
  while (true) {
    const auto first = keys_of_block_.lower_bound(blocks.start);
    if (first == keys_of_block_.end() || first->first >= blocks.end()) return revoked;
    revoked.push_back(take_out(first->second));
  }
}

HandleTable::Revoked HandleTable::revoke_one(uint32_t key) {
  ExclusiveLock lock(mutex_);
  return take_out(key);
}

std::vector<HandleTable::Revoked> HandleTable::revoke_all() {
  ExclusiveLock lock(mutex_);
  std::vector<Revoked> revoked;
  while (!by_key_.empty()) revoked.push_back(take_out(by_key_.begin()->first));
  return revoked;
}

}  // namespace brickfs
