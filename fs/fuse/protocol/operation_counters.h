// SPDX-License-Identifier: Apache-2.0
// What the kernel's requests were, and those of queues in shared memory, which are of the same kinds: how many of each
// kind, how long they took from when they came until they were answered, and what came of them.
//
// Threads: any; adding takes no lock and waits for nobody.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "fs/fuse/protocol/protocol.h"
#include "transport/base/latency_counters.h"

namespace brickfs {

// "read", "lookup", ...; "other" for what is unknown.
std::string_view operation_name(uint32_t opcode);

class OperationCounters {
 public:
  struct Operation {
    std::string_view name;
    LatencyCounts counts;  // `failures`: ended with an errno; that a name or an attribute does not exist is none
  };

  // A request of this kind (FUSE's opcode) was answered. Unknown kinds are one.
  void count(uint32_t opcode, int error, std::chrono::nanoseconds took, uint64_t bytes);
  // Of the kinds that have come, by name.
  std::vector<Operation> operations() const;

 private:
  static constexpr size_t kKinds = kOpcodes;

  LatencyCounters<kKinds> counters_;
};

}  // namespace brickfs
