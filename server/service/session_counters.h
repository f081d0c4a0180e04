// SPDX-License-Identifier: Apache-2.0
// What one session has asked for since it began. Counting takes no lock.
//
// Threads: any.
#pragma once

#include <cstddef>
#include <cstdint>

#include "transport/base/sharded_counters.h"
#include "transport/brick/administration.h"

namespace brickfs {

class SessionCounters {
 public:
  void called() { counters_.add(kCalls, 1); }
  void committed(uint64_t bytes) {
    counters_.add(kCommits, 1);
    counters_.add(kCommittedBytes, bytes);
  }
  void transferred(Direction direction, uint64_t bytes) {
    const size_t first = direction == Direction::kRead ? kReads : kWrites;
    counters_.add(first, 1);
    counters_.add(first + 1, bytes);
  }

  void fill(BrickStat& stat) const {
    stat.commits = counters_.sum(kCommits);
    stat.committed_bytes = counters_.sum(kCommittedBytes);
  }
  void fill(ClientStatus& client) const {
    client.calls = counters_.sum(kCalls);
    client.commits = counters_.sum(kCommits);
    client.committed_bytes = counters_.sum(kCommittedBytes);
    client.reads = counters_.sum(kReads);
    client.read_bytes = counters_.sum(kReads + 1);
    client.writes = counters_.sum(kWrites);
    client.written_bytes = counters_.sum(kWrites + 1);
  }

 private:
  enum : size_t { kCalls, kCommits, kCommittedBytes, kReads, kWrites = kReads + 2, kCount = kWrites + 2 };
  ShardedCounters<kCount> counters_;
};

}  // namespace brickfs
