// SPDX-License-Identifier: Apache-2.0
// What a client did with its volume, and how long it took.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "transport/base/latency_counters.h"
#include "transport/base/result.h"

namespace brickfs {

enum class VolumeCall : size_t {
  kRead,    // of bytes, with whatever had to be waited for
  kWrite,   // likewise
  kAlloc,   // of blocks; and their freeing
  kCommit,  // one for all who want it at a time
  kWait,    // for the brick, by anybody, while it was away
};
constexpr size_t kVolumeCalls = 5;

constexpr std::string_view name_of(VolumeCall call) {
  constexpr std::string_view kNames[kVolumeCalls] = {"read", "write", "alloc", "commit", "wait"};
  return kNames[static_cast<size_t>(call)];
}

class VolumeCounters {
 public:
  LatencyCounts counts(VolumeCall call) const { return counters_.counts(static_cast<size_t>(call)); }

  // Counts a call when it ends.
  class Call {
   public:
    Call(VolumeCounters& counters, VolumeCall call, uint64_t bytes = 0)
        : counters_(counters), call_(call), bytes_(bytes) {}
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;
    Status ended(Status status) {
      failed_ = !status.ok();
      return status;
    }
    ~Call() {
      counters_.counters_.count(static_cast<size_t>(call_), Clock::now() - began_, failed_, failed_ ? 0 : bytes_);
    }

   private:
    using Clock = std::chrono::steady_clock;

    VolumeCounters& counters_;
    const VolumeCall call_;
    const uint64_t bytes_;
    const Clock::time_point began_ = Clock::now();
    bool failed_ = false;
  };

 private:
  LatencyCounters<kVolumeCalls> counters_;
};

}  // namespace brickfs
