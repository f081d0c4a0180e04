// SPDX-License-Identifier: Apache-2.0
// All inodes of the volume, and the locks over them: a fixed set of reader-writer locks, each for the inodes whose
// number falls on it ("stripe"), so that operations on different inodes run side by side and an inode pays no bytes for
// a lock.
//
// Lock order: stripes are taken in ascending order, all at once, by an InodeLocks; nothing that waits for the network
// is done under one. See docs/architecture.md.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>

#include "absl/container/flat_hash_map.h"
#include "fs/inode/inode.h"
#include "transport/base/mutex.h"
#include "transport/base/result.h"

namespace brickfs {

class InodeTable {
 public:
  static constexpr size_t kStripes = 1024;

  InodeTable();
  ~InodeTable();

  // Null if there is none. The pointer stays valid until erase(); holding the inode's lock keeps it from being erased.
  Inode* find(Ino ino) const;
  Inode* insert(std::unique_ptr<Inode> inode);  // its number must be free
  void erase(Ino ino);                          // under its exclusive lock
  Result<Ino> new_number();                     // ENOSPC: all have been given
  Ino next_number() const;                      // limits::kInodeNumber + 1: there is none
  void raise_next(Ino at_least);                // recovery
  uint64_t size() const;
  // Of all inodes with what they own: as it was when each was inserted or last counted.
  uint64_t memory_bytes() const { return memory_units_.load(std::memory_order_relaxed) * kMemoryUnitBytes; }
  void count_memory(Inode& inode);  // again, after a change; under its exclusive lock
  void count_memory_of_all();       // behind a recovery; nothing else is under way
  // Numbers in use in [from, ...), ascending, at most `most`; for scans that go on while others work.
  std::vector<Ino> numbers_from(Ino from, size_t most) const;

 private:
  friend class InodeLocks;
  struct Shard;
  std::unique_ptr<Shard[]> shards_;
  std::unique_ptr<SharedMutex[]> stripes_;
  std::atomic<uint64_t> next_{2};
  static constexpr uint64_t kMemoryUnitBytes = 16;
  std::atomic<uint64_t> memory_units_{0};
};

// Holds the locks of up to five inodes for a scope, all exclusive or all shared. kNoIno stands for none.
class InodeLocks {
 public:
  enum class Mode { kShared, kExclusive };
  InodeLocks(InodeTable& table, std::initializer_list<Ino> inodes, Mode mode);
  ~InodeLocks();
  InodeLocks(const InodeLocks&) = delete;
  InodeLocks& operator=(const InodeLocks&) = delete;

 private:
  InodeTable& table_;
  std::array<uint16_t, 5> stripes_{};
  uint8_t count_ = 0;
  Mode mode_;
};

}  // namespace brickfs
