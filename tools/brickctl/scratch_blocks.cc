// SPDX-License-Identifier: Apache-2.0
#include "tools/brickctl/scratch_blocks.h"

#include <algorithm>
#include <optional>

#include "transport/brick/limits.h"

namespace brickfs {
namespace {

Status free_run(Brick& brick, BlockRange run) {
  while (run.count > 0) {
    const BlockRange part{run.start, std::min(run.count, limits::kBlocksPerCall)};
    TRY(brick.free(part));
    run = {part.end(), run.count - part.count};
  }
  return {};
}

Status free_all(Brick& brick) {
  std::optional<BlockAddress> cursor = kScratchBegin;
  while (cursor && *cursor < kScratchEnd) {
    const ListPage page = TRY(brick.list(*cursor));
    for (const BlockRange& extent : page.extents) {
      const BlockAddress start = std::max(extent.start, kScratchBegin);
      const BlockAddress end = std::min(extent.end(), kScratchEnd);
      if (start < end) TRY(free_run(brick, {start, (raw(end) - raw(start)) / kBlockBytes}));
    }
    cursor = page.cursor;
  }
  return {};
}

}  // namespace

Result<ScratchBlocks> ScratchBlocks::take(Brick& brick, uint64_t count) {
  TRY(free_all(brick));
  ScratchBlocks scratch(brick, {kScratchBegin, count});
  TRY(brick.alloc(scratch.range_));
  return scratch;
}

Status ScratchBlocks::give_back() {
  TRY(free_all(*brick_));
  return brick_->commit({});
}

}  // namespace brickfs
