// SPDX-License-Identifier: Apache-2.0
#include "server/service/handle_table.h"

#include <utility>

#include "transport/base/check.h"
#include "transport/base/random.h"
#include "transport/brick/limits.h"

namespace brickfs {
namespace {

Error too_many() { return Error(ENOMEM, "the session has too many handles on too many blocks"); }

}  // namespace

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

Status HandleTable::check_room(uint64_t blocks) const {
  SharedLock lock(mutex_);
  return blocks > most_mappings_ - keys_of_block_.size() ? Status(too_many()) : Status();
}

Result<Handle> HandleTable::add(BlockRange blocks, Access access, std::byte* memory, std::optional<uint32_t> given) {
  auto gate = std::make_shared<Revoked::Gate>();
  const auto open_gate = [gate](const Mapping* mapping) {
    delete mapping;
    MutexLock lock(gate->mutex);
    gate->open = true;
    gate->opened.notify_all();
  };
  Slot slot{std::shared_ptr<const Mapping>(new Mapping{blocks, access, memory}, open_gate), gate};
  ExclusiveLock lock(mutex_);
  if (blocks.count > most_mappings_ - keys_of_block_.size()) return too_many();
  uint32_t key = given ? *given : random_id<uint32_t>();
  while (!given && by_key_.contains(key)) key = random_id<uint32_t>();
  const bool added = by_key_.emplace(key, std::move(slot)).second;
  CHECK(added);
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

HandleTable::Revoked HandleTable::revoked(uint32_t key, const Slot& slot) {
  Revoked revoked;
  revoked.blocks_ = slot.mapping->blocks;
  revoked.key_ = key;
  revoked.access_ = slot.mapping->access;
  revoked.gate_ = slot.gate;
  return revoked;
}

HandleTable::Revoked HandleTable::take_out(uint32_t key) {
  const auto found = by_key_.find(key);
  Revoked taken = revoked(key, found->second);
  for (uint64_t i = 0; i < taken.blocks_.count; ++i) {
    keys_of_block_.erase({block_after(taken.blocks_.start, i), key});
  }
  by_key_.erase(found);
  return taken;
}

std::vector<HandleTable::Revoked> HandleTable::revoke(BlockRange blocks) {
  ExclusiveLock lock(mutex_);
  std::vector<Revoked> taken;
  while (true) {
    const auto first = keys_of_block_.lower_bound({blocks.start, 0});
    if (first == keys_of_block_.end() || first->first >= blocks.end()) return taken;
    taken.push_back(take_out(first->second));
  }
}

std::optional<HandleTable::Revoked> HandleTable::revoke_one(uint32_t key) {
  ExclusiveLock lock(mutex_);
  if (!by_key_.contains(key)) return {};
  return take_out(key);
}

// Not one after the other: to find the first of a hash table that becomes empty takes ever longer.
std::vector<HandleTable::Revoked> HandleTable::revoke_all() {
  ExclusiveLock lock(mutex_);
  std::vector<Revoked> all;
  all.reserve(by_key_.size());
  for (const auto& [key, slot] : by_key_) all.push_back(revoked(key, slot));
  by_key_.clear();
  keys_of_block_.clear();
  return all;
}

}  // namespace brickfs
