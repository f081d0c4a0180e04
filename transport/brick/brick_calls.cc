// SPDX-License-Identifier: Apache-2.0
#include "transport/brick/brick_calls.h"

#include <algorithm>

#include "transport/brick/limits.h"

namespace brickfs {

Result<std::vector<BlockRange>> list_blocks(Brick& brick) {
  std::vector<BlockRange> blocks;
  BlockAddress cursor{0};
  for (;;) {
    const ListPage page = TRY(brick.list(cursor));
    for (const BlockRange& extent : page.extents) {
      if (!is_valid(extent)) return Error(EPROTO, "list of blocks");
      if (!blocks.empty()) {
        if (raw(extent.start) < raw(blocks.back().end())) return Error(EPROTO, "list of blocks");
        if (extent.start == blocks.back().end()) {
          blocks.back().count += extent.count;
          continue;
        }
      }
      blocks.push_back(extent);
    }
    if (!page.cursor) return blocks;
    if (raw(*page.cursor) <= raw(cursor)) return Error(EPROTO, "list of blocks");
    cursor = *page.cursor;
  }
}

Status commit_ranges(Brick& brick, std::span<const CommitRange> ranges) {
  do {
    const size_t count = std::min(ranges.size(), limits::kRangesPerCommit);
    TRY(brick.commit(ranges.first(count)));
    ranges = ranges.subspan(count);
  } while (!ranges.empty());
  return {};
}

}  // namespace brickfs
