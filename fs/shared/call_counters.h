// SPDX-License-Identifier: Apache-2.0
// Calls of members, counted where they are made and where they are done: how many of each kind, how long they took,
// and what came of them.
//
// Threads: any; counting takes no lock.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "fs/shared/calls.h"
#include "transport/base/latency_counters.h"

namespace brickfs::shared {

class CallCounters {
 public:
  struct Call {
    std::string name;      // "lookup", "get_attributes" ...: what its struct is called
    LatencyCounts counts;  // `failures`: ended with an errno; that something does not exist, or is locked, is none
  };

  // Not of a kind that is none, nor of AwaitRecalls, which is always under way.
  void count(size_t kind, std::chrono::nanoseconds took, int error, uint64_t bytes);
  // Of the kinds that have come, by name.
  std::vector<Call> calls() const;

 private:
  LatencyCounters<kKinds> counters_;
};

// One that another machine may keep waiting, which costs nothing.
constexpr bool waits_for_others(size_t kind) { return kind == kind_of<SetLock>() || kind == kind_of<AwaitRecalls>(); }

}  // namespace brickfs::shared
