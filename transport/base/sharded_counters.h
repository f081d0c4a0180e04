// SPDX-License-Identifier: Apache-2.0
// Counters that many threads add to all the time and somebody reads now and then: a row for each of some threads, so
// that those on different cores do not share a cache line. A sum is of no instant: what is added meanwhile may be in
// it.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace brickfs {

// A number below `shards` for the calling thread: the same each time; threads take turns.
inline size_t shard_of_thread(size_t shards) {
  static std::atomic<size_t> next{0};
  thread_local const size_t mine = next.fetch_add(1, std::memory_order_relaxed);
  return mine % shards;
}

template <size_t kCounters>
class ShardedCounters {
 public:
  void add(size_t counter, uint64_t amount) {
    rows_[shard_of_thread(kRows)].values[counter].fetch_add(amount, std::memory_order_relaxed);
  }
  uint64_t sum(size_t counter) const {
    uint64_t all = 0;
    for (const Row& row : rows_) all += row.values[counter].load(std::memory_order_relaxed);
    return all;
  }

 private:
  static constexpr size_t kRows = 8;
  struct alignas(64) Row {
    std::array<std::atomic<uint64_t>, kCounters> values{};
  };
  std::array<Row, kRows> rows_;
};

}  // namespace brickfs
