// SPDX-License-Identifier: Apache-2.0
// Which of the numbers 0 .. n-1 (frames of the pool, slots of the store) are free, as runs. O(log runs) each.
// Threads: none of its own; the owner's lock guards it.
#pragma once

#include <cstdint>
#include <optional>

#include "transport/base/interval_set.h"

namespace brickfs {

class FreeRuns {
 public:
  // Makes [first, first + count) free. Precondition: none of it is.
  void add(uint32_t first, uint32_t count = 1);
  // Takes `wanted` if it is free, else the next free one above it, else the lowest. None: nothing is free.
  std::optional<uint32_t> take(uint32_t wanted);
  uint32_t count() const { return static_cast<uint32_t>(free_.count()); }

 private:
  IntervalSet<uint32_t> free_;
};

}  // namespace brickfs
