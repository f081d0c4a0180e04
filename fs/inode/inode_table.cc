// SPDX-License-Identifier: Apache-2.0
#include "fs/inode/inode_table.h"

#include <algorithm>
#include <bit>
#include <optional>

#include "absl/container/btree_map.h"
#include "transport/base/check.h"
#include "transport/brick/limits.h"

namespace brickfs {
namespace {

// Inodes made together stand together: a group is the inodes of so many neighbouring numbers, and each group lies in
// the shard its number falls on.
constexpr uint64_t kGroupInodes = 64;
constexpr size_t kShards = 64;

constexpr uint64_t group_of(Ino ino) { return raw(ino) / kGroupInodes; }
constexpr size_t slot_of(Ino ino) { return raw(ino) % kGroupInodes; }

}  // namespace

struct InodeTable::Shard {
  struct Group {
    uint64_t used = 0;  // a bit for each slot
    std::array<std::unique_ptr<Inode>, kGroupInodes> inodes;
  };

  mutable SharedMutex mutex;
  absl::btree_map<uint64_t, std::unique_ptr<Group>> groups ABSL_GUARDED_BY(mutex);
  uint64_t size ABSL_GUARDED_BY(mutex) = 0;

  // The first group from `from` on in this shard.
  std::optional<uint64_t> group_from(uint64_t from) const ABSL_LOCKS_EXCLUDED(mutex) {
    const SharedLock lock(mutex);
    const auto it = groups.lower_bound(from);
    return it == groups.end() ? std::nullopt : std::optional(it->first);
  }

  uint64_t used_in(uint64_t group) const ABSL_LOCKS_EXCLUDED(mutex) {
    const SharedLock lock(mutex);
    const auto it = groups.find(group);
    return it == groups.end() ? 0 : it->second->used;
  }
};

InodeTable::InodeTable()
    : shards_(std::make_unique<Shard[]>(kShards)), stripes_(std::make_unique<SharedMutex[]>(kStripes)) {}
InodeTable::~InodeTable() = default;

Inode* InodeTable::find(Ino ino) const {
  const Shard& shard = shards_[group_of(ino) % kShards];
  const SharedLock lock(shard.mutex);
  const auto it = shard.groups.find(group_of(ino));
  return it == shard.groups.end() ? nullptr : it->second->inodes[slot_of(ino)].get();
}

Inode* InodeTable::insert(std::unique_ptr<Inode> inode) {
  const Ino ino = inode->ino;
  Shard& shard = shards_[group_of(ino) % kShards];
  const ExclusiveLock lock(shard.mutex);
  std::unique_ptr<Shard::Group>& group = shard.groups[group_of(ino)];
  if (!group) group = std::make_unique<Shard::Group>();
  std::unique_ptr<Inode>& slot = group->inodes[slot_of(ino)];
  CHECK(!slot);
  slot = std::move(inode);
  count_memory(*slot);
  group->used |= uint64_t{1} << slot_of(ino);
  ++shard.size;
  return slot.get();
}

void InodeTable::erase(Ino ino) {
  Shard& shard = shards_[group_of(ino) % kShards];
  std::unique_ptr<Inode> erased;  // destroyed without the shard's lock
  const ExclusiveLock lock(shard.mutex);
  const auto it = shard.groups.find(group_of(ino));
  if (it == shard.groups.end()) return;
  Shard::Group& group = *it->second;
  erased = std::move(group.inodes[slot_of(ino)]);
  if (!erased) return;
  memory_units_.fetch_sub(erased->counted_units, std::memory_order_relaxed);
  --shard.size;
  group.used &= ~(uint64_t{1} << slot_of(ino));
  if (group.used == 0) shard.groups.erase(it);
}

// Those asked for in vain raise it further; it takes centuries to come to its end.
Result<Ino> InodeTable::new_number() {
  const uint64_t number = next_.fetch_add(1, std::memory_order_relaxed);
  if (number > limits::kInodeNumber) return Error(ENOSPC, "the volume has no more inode numbers");
  return Ino{number};
}

Ino InodeTable::next_number() const {
  return Ino{std::min(next_.load(std::memory_order_relaxed), limits::kInodeNumber + 1)};
}

void InodeTable::raise_next(Ino at_least) {
  uint64_t next = next_.load(std::memory_order_relaxed);
  while (next < raw(at_least) && !next_.compare_exchange_weak(next, raw(at_least), std::memory_order_relaxed)) {
  }
}

uint64_t InodeTable::size() const {
  uint64_t size = 0;
  for (size_t i = 0; i < kShards; ++i) {
    const SharedLock lock(shards_[i].mutex);
    size += shards_[i].size;
  }
  return size;
}

void InodeTable::count_memory(Inode& inode) {
  constexpr uint64_t kSlotBytes = 16;  // in its group, and of groups that are not full
  const uint64_t units = (inode.memory_bytes() + kSlotBytes) / kMemoryUnitBytes;
  const auto now = static_cast<uint32_t>(std::min<uint64_t>(units, UINT32_MAX));
  memory_units_.fetch_add(uint64_t{now} - inode.counted_units, std::memory_order_relaxed);
  inode.counted_units = now;
}

void InodeTable::count_memory_of_all() {
  for (size_t i = 0; i < kShards; ++i) {
    const SharedLock lock(shards_[i].mutex);
    for (const auto& [number, group] : shards_[i].groups) {
      for (const auto& inode : group->inodes) {
        if (inode) count_memory(*inode);
      }
    }
  }
}

std::vector<Ino> InodeTable::numbers_from(Ino from, size_t most) const {
  std::array<std::optional<uint64_t>, kShards> heads;  // the next group of each shard
  for (size_t i = 0; i < kShards; ++i) heads[i] = shards_[i].group_from(group_of(from));
  std::vector<Ino> numbers;
  while (numbers.size() < most) {
    const auto head = std::min_element(heads.begin(), heads.end(), [](const auto& left, const auto& right) {
      return left.has_value() && (!right.has_value() || *left < *right);
    });
    if (!head->has_value()) break;
    const uint64_t group = **head;
    const Shard& shard = shards_[group % kShards];
    for (uint64_t used = shard.used_in(group); used != 0 && numbers.size() < most; used &= used - 1) {
      const Ino ino{group * kGroupInodes + static_cast<uint64_t>(std::countr_zero(used))};
      if (ino >= from) numbers.push_back(ino);
    }
    *head = shard.group_from(group + 1);
  }
  return numbers;
}

InodeLocks::InodeLocks(InodeTable& table, std::initializer_list<Ino> inodes, Mode mode) ABSL_NO_THREAD_SAFETY_ANALYSIS
    : table_(table),
      mode_(mode) {
  CHECK(inodes.size() <= stripes_.size());
  for (const Ino ino : inodes) {
    if (ino != kNoIno) stripes_[count_++] = static_cast<uint16_t>(raw(ino) % InodeTable::kStripes);
  }
  const auto end = stripes_.begin() + count_;
  std::sort(stripes_.begin(), end);
  count_ = static_cast<uint8_t>(std::unique(stripes_.begin(), end) - stripes_.begin());
  for (uint8_t i = 0; i < count_; ++i) {
    SharedMutex& stripe = table_.stripes_[stripes_[i]];
    if (mode_ == Mode::kExclusive) {
      stripe.lock();
    } else {
      stripe.lock_shared();
    }
  }
}

InodeLocks::~InodeLocks() ABSL_NO_THREAD_SAFETY_ANALYSIS {
  for (uint8_t i = count_; i > 0; --i) {
    SharedMutex& stripe = table_.stripes_[stripes_[i - 1]];
    if (mode_ == Mode::kExclusive) {
      stripe.unlock();
    } else {
      stripe.unlock_shared();
    }
  }
}

}  // namespace brickfs
