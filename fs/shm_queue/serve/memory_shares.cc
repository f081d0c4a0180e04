// SPDX-License-Identifier: Apache-2.0
#include "fs/shm_queue/serve/memory_shares.h"

#include <cerrno>

#include "fs/shm_queue/memory.h"

namespace brickfs {

Result<MemoryShares::Share> MemoryShares::take(uid_t user, uint64_t bytes) {
  if (user == 0) return Share();
  MutexLock lock(mutex_);
  const auto found = taken_.find(user);
  const uint64_t taken = found == taken_.end() ? 0 : found->second;
  if (bytes > shm_queue::kMostMemoryOfUser - taken) return Error(EUSERS, "the memory of a user's queues");
  taken_[user] = taken + bytes;
  return Share(*this, user, bytes);
}

void MemoryShares::give_back(uid_t user, uint64_t bytes) {
  MutexLock lock(mutex_);
  const auto found = taken_.find(user);
  found->second -= bytes;
  if (found->second == 0) taken_.erase(found);
}

}  // namespace brickfs
