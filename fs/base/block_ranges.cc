// SPDX-License-Identifier: Apache-2.0
#include "fs/base/block_ranges.h"

#include <algorithm>

namespace brickfs {
namespace {

BlockRange between(BlockAddress start, BlockAddress end) { return {start, (raw(end) - raw(start)) / kBlockBytes}; }

}  // namespace

bool contains(std::span<const BlockRange> ranges, BlockAddress block) {
  const auto behind = std::ranges::upper_bound(ranges, block, {}, &BlockRange::start);
  return behind != ranges.begin() && block < std::prev(behind)->end();
}

std::vector<BlockRange> subtract(std::span<const BlockRange> from, std::span<const BlockRange> without) {
  std::vector<BlockRange> rest;
  size_t at = 0;
  for (const BlockRange& range : from) {
    BlockAddress start = range.start;
    while (at < without.size() && without[at].end() <= start) ++at;
    for (size_t i = at; i < without.size() && without[i].start < range.end(); ++i) {
      if (without[i].start > start) rest.push_back(between(start, without[i].start));
      start = std::max(start, without[i].end());
    }
    if (start < range.end()) rest.push_back(between(start, range.end()));
  }
  return rest;
}

std::vector<BlockRange> intersect(std::span<const BlockRange> from, std::span<const BlockRange> with) {
  return subtract(from, subtract(from, with));
}

uint64_t count_blocks(std::span<const BlockRange> ranges) {
  uint64_t blocks = 0;
  for (const BlockRange& range : ranges) blocks += range.count;
  return blocks;
}

}  // namespace brickfs
