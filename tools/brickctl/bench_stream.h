// SPDX-License-Identifier: Apache-2.0
// One thread of a bench: its registered memory, its share of the blocks, and the loop that measures. Nothing is
// allocated while it runs, and between two transfers there is only a look at the clock: what it measures is the
// transport.
//
// Threads: each stream is used by one at a time.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "tools/brickctl/latency_histogram.h"
#include "transport/base/result.h"
#include "transport/brick/brick.h"

namespace brickfs {

using BenchClock = std::chrono::steady_clock;

struct BenchShape {
  uint32_t transfer_bytes = 0;  // at most kBlockBytes
  uint32_t depth = 1;           // transfers under way
  uint64_t span_bytes = 0;      // of the share that is read and written over and over; a transfer at least
  std::byte fill{};             // every byte written
};

// What counts: transfers complete between the two. With many under way, those that the window's ends cut make up for
// each other.
struct BenchWindow {
  BenchClock::time_point begin;
  BenchClock::time_point end;
};

class BenchStream {
 public:
  // `share`: where it reads and writes: at least one handle, mapped for writing. ENOMEM; errors as
  // Brick::register_memory().
  static Result<std::unique_ptr<BenchStream>> open(Brick& brick, std::vector<Handle> share, const BenchShape& shape);
  ~BenchStream();
  BenchStream(const BenchStream&) = delete;
  BenchStream& operator=(const BenchStream&) = delete;

  // Every byte of the share, once, so that what is measured later are blocks in memory.
  Status fill();
  // From now to the window's end, or until interrupted(): nothing is under way on return.
  Status run(Direction direction, const BenchWindow& window, LatencyHistogram& latencies);
  // After a run that read: what it read is what was written.
  bool read_back() const;

 private:
  struct Slot;
  BenchStream(Brick& brick, std::vector<Handle> share, const BenchShape& shape);
  Status prepare();
  std::byte* memory_of(size_t slot) const;
  void aim(Slot& slot);
  void post(Slot& slot);
  Status run_one_by_one(const BenchWindow& window, LatencyHistogram& latencies);
  Status run_queue(const BenchWindow& window, LatencyHistogram& latencies);

  Brick& brick_;
  const std::vector<Handle> share_;
  const BenchShape shape_;
  size_t memory_bytes_ = 0;
  std::byte* memory_ = nullptr;
  RegisteredMemory registration_;  // goes before the memory
  std::unique_ptr<Slot[]> slots_;
  // Where the next transfer goes: in which handle, how many bytes are before that, and where in it.
  size_t handle_ = 0;
  uint64_t before_ = 0;
  uint64_t offset_ = 0;
};

}  // namespace brickfs
