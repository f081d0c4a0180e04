// SPDX-License-Identifier: Apache-2.0
// The handles of one session: what each key stands for, and who is using it at the moment.
//
// Threads: every call from any thread; pin() takes only a shared lock of this table.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "absl/container/btree_set.h"
#include "absl/container/flat_hash_map.h"
#include "transport/base/mutex.h"
#include "transport/base/result.h"
#include "transport/brick/calls.h"

namespace brickfs {

// Part of mapped memory that stays in place, and mapped, as long as this lives. Short-lived: holders of a handle being
// revoked are waited for, and their connections cut if they take long.
class Pin {
 public:
  Pin() = default;
  Pin(std::span<std::byte> bytes, std::shared_ptr<void> hold) : bytes_(bytes), hold_(std::move(hold)) {}
  std::span<std::byte> bytes() const { return bytes_; }

 private:
  std::span<std::byte> bytes_;
  std::shared_ptr<void> hold_;
};

class HandleTable {
 public:
  // A handle that is in the table no more. Its last Pin may still be out.
  class Revoked {
   public:
    BlockRange blocks() const { return blocks_; }
    Access access() const { return access_; }
    uint32_t key() const { return key_; }
    // True once no Pin of it is left.
    bool wait_until(std::chrono::steady_clock::time_point deadline) const;
    void wait() const;

   private:
    friend class HandleTable;
    struct Gate;
    BlockRange blocks_;
    Access access_{};
    uint32_t key_ = 0;
    std::shared_ptr<Gate> gate_;
  };

  // `most_mappings`: of blocks in handles, each counted as often as handles cover it.
  explicit HandleTable(uint64_t most_mappings) : most_mappings_(most_mappings) {}

  // ENOMEM: so many blocks more would be more than `most_mappings`.
  Status check_room(uint64_t blocks) const;
  // `memory`: of `blocks`, neighbouring. `key`: of no other handle in the table; else an unpredictable one is made.
  // ENOMEM: as check_room().
  Result<Handle> add(BlockRange blocks, Access access, std::byte* memory, std::optional<uint32_t> key = {});
  Result<Pin> pin(uint32_t key, uint64_t address, uint64_t length_bytes, Access access) const;
  // Takes out every handle that covers any block of the range.
  std::vector<Revoked> revoke(BlockRange blocks);
  std::vector<Revoked> revoke_all();
  // Nothing: the key is not in the table, or not any more.
  std::optional<Revoked> revoke_one(uint32_t key);

 private:
  struct Mapping {
    BlockRange blocks;
    Access access{};
    std::byte* memory = nullptr;
  };
  // The table's own reference, and one in each Pin; the gate opens when the last is gone.
  struct Slot {
    std::shared_ptr<const Mapping> mapping;
    std::shared_ptr<Revoked::Gate> gate;
  };
  static Revoked revoked(uint32_t key, const Slot& slot);
  // Precondition: the key is in the table.
  Revoked take_out(uint32_t key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const uint64_t most_mappings_;

  mutable SharedMutex mutex_;
  absl::flat_hash_map<uint32_t, Slot> by_key_ ABSL_GUARDED_BY(mutex_);
  // Each block of each handle, with its key: so one of many handles on a block is found as fast as a block.
  absl::btree_set<std::pair<BlockAddress, uint32_t>> keys_of_block_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace brickfs
