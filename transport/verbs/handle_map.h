// SPDX-License-Identifier: Apache-2.0
// The handles of a session as its client knows them: what a Handle's remote_key stands for on each lane, and how many
// transfers are using it, so that unmap can wait for them instead of having the device refuse them.
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
#include "transport/brick.h"
#include "transport/verbs/verbs_wire.h"

namespace brickfs::verbs {

// Stays until nobody uses it any more and its handle has been taken out.
struct Mapping {
  Handle handle;
  std::array<std::atomic<uint32_t>, limits::kLanesPerSession> keys{};  // by lane; 0: not by that one
  std::atomic<uint32_t> users{0};
};

class HandleMap {
 public:
  // What a brick answers to MAP. EPROTO: not what was asked for.
  Result<std::vector<Handle>> add(std::span<const std::byte> body, const BlockRange& asked, Access access);
  void add_keys(uint32_t lane, std::span<const KeyRecord> keys);

  // Counts a user more. Null: no such handle, or not as it was handed out.
  Mapping* use(const Handle& handle);
  static void release(Mapping& mapping) { mapping.users.fetch_sub(1, std::memory_order_release); }

  // Takes out every handle that covers any block of the range; no use() finds them from then on.
  std::vector<std::shared_ptr<Mapping>> take_out(BlockRange blocks);
  void put_back(std::span<const std::shared_ptr<Mapping>> taken);

 private:
  mutable SharedMutex mutex_;
  absl::flat_hash_map<uint32_t, std::shared_ptr<Mapping>> by_id_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace brickfs::verbs
