// SPDX-License-Identifier: Apache-2.0
#include "transport/volume/local_keys.h"

#include <algorithm>

namespace brickfs {

LocalKeys::Own LocalKeys::attach(size_t place, Register brick) {
  const MutexLock registering(registering_);
  const auto unused = std::ranges::find_if(bricks_, [](const Brick& one) { return !one.registers; });
  const auto slot = static_cast<size_t>(unused - bricks_.begin());
  if (unused == bricks_.end()) bricks_.emplace_back();
  bricks_[slot] = {place, std::move(brick)};
  std::vector<std::pair<size_t, std::span<std::byte>>> present;
  {
    const SharedLock lock(mutex_);
    for (size_t index = 0; index < memories_.size(); ++index) {
      const Memory& memory = memories_[index];
      if (!memory.bytes.empty() && memory.place.value_or(place) == place) present.emplace_back(index, memory.bytes);
    }
  }
  for (const auto& [index, bytes] : present) {
    auto registered = bricks_[slot].registers(bytes);
    if (!registered.ok()) continue;
    const ExclusiveLock lock(mutex_);
    auto& registrations = memories_[index].registrations;
    registrations.resize(std::max(registrations.size(), slot + 1));
    registrations[slot] = std::move(*registered);
  }
  return {this, slot};
}

void LocalKeys::detach(size_t slot) {
  const MutexLock registering(registering_);
  bricks_[slot] = {};
  std::vector<RegisteredMemory> ended;  // without the lock
  const ExclusiveLock lock(mutex_);
  for (Memory& memory : memories_) {
    if (slot < memory.registrations.size()) ended.push_back(std::exchange(memory.registrations[slot], {}));
  }
}

Result<RegisteredMemory> LocalKeys::add(std::span<std::byte> memory, std::optional<size_t> place) {
  const MutexLock registering(registering_);
  std::vector<RegisteredMemory> registrations(bricks_.size());
  bool keyed = false;
  for (size_t slot = 0; slot < bricks_.size(); ++slot) {
    const Brick& brick = bricks_[slot];
    if (!brick.registers || place.value_or(brick.place) != brick.place) continue;
    registrations[slot] = TRY(brick.registers(memory));
    keyed |= registrations[slot].local_key() != 0;
  }
  if (!keyed) return RegisteredMemory();
  const ExclusiveLock lock(mutex_);
  const auto unused = std::ranges::find_if(memories_, [](const Memory& one) { return one.bytes.empty(); });
  const auto index = static_cast<size_t>(unused - memories_.begin());
  if (unused == memories_.end()) memories_.emplace_back();
  memories_[index] = {memory, place, std::move(registrations)};
  return RegisteredMemory(static_cast<uint32_t>(index + 1), [this, index] { remove(index); });
}

void LocalKeys::remove(size_t index) {
  const MutexLock registering(registering_);
  Memory ended;  // without the lock
  const ExclusiveLock lock(mutex_);
  std::swap(ended, memories_[index]);
}

uint32_t LocalKeys::find(uint32_t key, size_t slot) const {
  const SharedLock lock(mutex_);
  const auto& registrations = memories_[key - 1].registrations;
  return slot < registrations.size() ? registrations[slot].local_key() : 0;
}

}  // namespace brickfs
