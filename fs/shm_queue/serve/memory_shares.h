// SPDX-License-Identifier: Apache-2.0
// How much memory the queues of each user have: what is registered with devices stays where it is, whatever the limits
// of that user say, so it has a bound (shm_queue::kMostMemoryOfUser). Root has none.
//
// Threads: any.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <utility>

#include "transport/base/mutex.h"
#include "transport/base/result.h"

namespace brickfs {

class MemoryShares {
 public:
  // Given back with it, before the MemoryShares goes.
  class Share {
   public:
    Share() = default;
    Share(Share&& other) noexcept { *this = std::move(other); }
    Share& operator=(Share&& other) noexcept {
      std::swap(of_, other.of_);
      std::swap(user_, other.user_);
      std::swap(bytes_, other.bytes_);
      return *this;
    }
    ~Share() {
      if (of_ != nullptr) of_->give_back(user_, bytes_);
    }

   private:
    friend class MemoryShares;
    Share(MemoryShares& of, uid_t user, uint64_t bytes) : of_(&of), user_(user), bytes_(bytes) {}

    MemoryShares* of_ = nullptr;
    uid_t user_ = 0;
    uint64_t bytes_ = 0;
  };

  // EUSERS.
  Result<Share> take(uid_t user, uint64_t bytes);

 private:
  void give_back(uid_t user, uint64_t bytes);

  Mutex mutex_;
  std::map<uid_t, uint64_t> taken_ ABSL_GUARDED_BY(mutex_);  // bytes
};

}  // namespace brickfs
