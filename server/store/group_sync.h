// SPDX-License-Identifier: Apache-2.0
// The one way by which anything in a store becomes durable: syncs of its device, one at a time. Who comes while one
// runs waits for the next, together with all who come meanwhile: the one that runs may not see what he wrote.
//
// A sync that fails fails for everybody and for good (docs/decisions, 4): the device says
// once that bytes are lost, not whose.
//
// Threads: every call from any thread.
#pragma once

#include <atomic>
#include <cstdint>

#include "server/store/store_device.h"
#include "transport/base/mutex.h"
#include "transport/base/result.h"

namespace brickfs {

class GroupSync {
 public:
  explicit GroupSync(StoreDevice& device) : device_(device) {}
  GroupSync(const GroupSync&) = delete;
  GroupSync& operator=(const GroupSync&) = delete;

  // All that had been written when it was called is durable. Else the error of the sync that failed, from then on.
  Status sync() ABSL_LOCKS_EXCLUDED(mutex_);
  bool failed() const { return failed_.load(); }

  // To be called after each write of the table: a sync that begins before it has returned does not count for it.
  void table_written() { table_writes_.fetch_add(1); }
  // Every table_written() before the call was followed by a sync.
  bool table_is_durable() const { return table_synced_.load() >= table_writes_.load(); }

 private:
  void run() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);  // lets go of the mutex meanwhile

  StoreDevice& device_;
  std::atomic<uint64_t> table_writes_{0};
  std::atomic<uint64_t> table_synced_{0};  // so many of them
  std::atomic<bool> failed_{false};        // written under mutex_

  Mutex mutex_;
  CondVar ended_changed_;
  uint64_t begun_ ABSL_GUARDED_BY(mutex_) = 0;  // syncs; one more than ended: it runs
  uint64_t ended_ ABSL_GUARDED_BY(mutex_) = 0;
  Status failure_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace brickfs
