// SPDX-License-Identifier: Apache-2.0
// The handles of a session as its client knows them: what a Handle's remote_key stands for on each queue pair, and how
// many transfers are using it, so that unmap can wait for them instead of having the device refuse them.
//
// A Handle's remote_key is the place of its mapping in a table that only grows, and a number that changes whenever the
// place is taken anew. Finding it takes no lock.
//
// Threads: every call from any thread.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "transport/base/mutex.h"
#include "transport/base/result.h"
#include "transport/brick/brick.h"
#include "transport/brick/limits.h"

namespace brickfs::onesided {

struct alignas(64) Mapping {
  Handle handle;  // does not change as long as the mapping is live
  std::array<std::atomic<uint32_t>, limits::kQueuePairsPerSession> keys{};  // by queue pair; 0: not by that one
  std::atomic<uint32_t> users{0};
  std::atomic<uint32_t> live{0};  // the handle's remote_key; 0: nobody may begin to use it
  uint32_t id = 0;                // by which the brick knows it
};

class HandleMap {
 public:
  // What a brick has answered to MAP; the handles get remote keys of this map. EPROTO: a handle without keys, or one
  // that was there before. ENOMEM: more handles than anybody should have.
  Result<calls::Mapped> add(calls::Mapped mapped);
  // A page of the answer to KEYS. Its keys go before those of a MAP whose answer is on its way.
  void add_keys(const calls::Keys& asked, std::span<const calls::KeyRecord> keys);

  // Counts a user more. Null: no such handle, or not as it was handed out; somebody may have seen a user more for a
  // moment.
  Mapping* use(const Handle& handle);
  static void release(Mapping& mapping) { mapping.users.fetch_sub(1, std::memory_order_release); }

  // Takes out every handle that covers any block of the range; no use() finds them from then on. Then, once nobody uses
  // them any more, forget() or put_back().
  std::vector<Mapping*> take_out(BlockRange blocks);
  void put_back(std::span<Mapping* const> taken);
  void forget(std::span<Mapping* const> taken);

 private:
  static constexpr uint32_t kPlaces = 1u << 20;  // a remote key is a number, not 0, times this, and the place
  static constexpr uint32_t kChunkPlaces = 256;
  static constexpr uint32_t kChunks = kPlaces / kChunkPlaces;
  static constexpr size_t kEarlyKeys = calls::kKeysPerPage;  // of a queue pair: far more than MAPs are under way
  using Chunk = std::array<Mapping, kChunkPlaces>;
  using KeysById = absl::flat_hash_map<uint32_t, uint32_t>;

  Mapping* at(uint32_t remote_key) const;
  Result<uint32_t> take_place() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  std::array<std::atomic<Chunk*>, kChunks> chunks_{};

  Mutex mutex_;
  std::vector<std::unique_ptr<Chunk>> made_ ABSL_GUARDED_BY(mutex_);  // chunks_' first
  uint32_t places_ ABSL_GUARDED_BY(mutex_) = 0;                       // taken so far
  std::vector<uint32_t> free_ ABSL_GUARDED_BY(mutex_);                // remote keys that those places are to have next
  absl::flat_hash_map<uint32_t, Mapping*> by_id_ ABSL_GUARDED_BY(mutex_);  // what is taken out, too
  // By queue pair, what its last KEYS told of handles that are not known yet.
  std::array<KeysById, limits::kQueuePairsPerSession> early_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace brickfs::onesided
