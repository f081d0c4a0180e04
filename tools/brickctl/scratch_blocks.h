// SPDX-License-Identifier: Apache-2.0
// Blocks of a volume for a measurement: at addresses that no file system reaches (docs/format.md), allocated and given
// back.
#pragma once

#include <cstdint>

#include "transport/base/result.h"
#include "transport/brick/brick.h"

namespace brickfs {

constexpr BlockAddress kScratchBegin{uint64_t{1} << 63};
constexpr BlockAddress kScratchEnd{raw(kScratchBegin) + (uint64_t{1} << 40)};

class ScratchBlocks {
 public:
  // On a brick with an exclusive session, which outlives this. Frees what a measurement that was killed has left.
  // Errors as Brick::alloc(). 1 to limits::kBlocksPerCall blocks.
  static Result<ScratchBlocks> take(Brick& brick, uint64_t count);

  BlockRange range() const { return range_; }
  // For good: on a durable brick too. In any exclusive session, not only the one that took them.
  Status give_back();

 private:
  ScratchBlocks(Brick& brick, BlockRange range) : brick_(&brick), range_(range) {}

  Brick* brick_;
  BlockRange range_;
};

}  // namespace brickfs
