// SPDX-License-Identifier: Apache-2.0
#include "transport/brick/block_set.h"

#include <algorithm>

namespace brickfs {

void BlockSet::insert(BlockRange blocks) {
  if (blocks.count == 0) return;
  uint64_t first = raw(blocks.start);
  uint64_t end = raw(blocks.end());
  auto run = runs_.upper_bound(first);
  if (run != runs_.begin()) {
    auto before = std::prev(run);
    if (before->second >= first) run = before;
  }
  while (run != runs_.end() && run->first <= end) {
    first = std::min(first, run->first);
    end = std::max(end, run->second);
    run = runs_.erase(run);
  }
  runs_.emplace(first, end);
}

void BlockSet::erase(BlockRange blocks) {
  if (blocks.count == 0) return;
  const uint64_t first = raw(blocks.start);
  const uint64_t end = raw(blocks.end());
  auto run = runs_.upper_bound(first);
  if (run != runs_.begin() && std::prev(run)->second > first) --run;
  while (run != runs_.end() && run->first < end) {
    const auto [run_first, run_end] = *run;
    run = runs_.erase(run);
    if (run_first < first) runs_.emplace(run_first, first);
    if (run_end > end) runs_.emplace(end, run_end);
    run = runs_.lower_bound(std::max(run_first, first));
  }
}

void BlockSet::insert(const BlockSet& other) {
  for (const BlockRange& range : other.ranges()) insert(range);
}

void BlockSet::erase(const BlockSet& other) {
  for (const BlockRange& range : other.ranges()) erase(range);
}

bool BlockSet::contains(BlockRange blocks) const {
  if (blocks.count == 0) return true;
  auto run = runs_.upper_bound(raw(blocks.start));
  return run != runs_.begin() && std::prev(run)->second >= raw(blocks.end());
}

bool BlockSet::intersects(BlockRange blocks) const {
  if (blocks.count == 0) return false;
  auto run = runs_.upper_bound(raw(blocks.start));
  if (run != runs_.begin() && std::prev(run)->second > raw(blocks.start)) return true;
  return run != runs_.end() && run->first < raw(blocks.end());
}

BlockSet BlockSet::intersection(BlockRange blocks) const {
  BlockSet common;
  if (blocks.count == 0) return common;
  const uint64_t first = raw(blocks.start);
  const uint64_t end = raw(blocks.end());
  auto run = runs_.upper_bound(first);
  if (run != runs_.begin() && std::prev(run)->second > first) --run;
  for (; run != runs_.end() && run->first < end; ++run) {
    common.runs_.emplace(std::max(run->first, first), std::min(run->second, end));
  }
  return common;
}

BlockSet BlockSet::intersection(const BlockSet& other) const {
  BlockSet common;
  for (const BlockRange& range : other.ranges()) common.insert(intersection(range));
  return common;
}

BlockSet BlockSet::without(const BlockSet& other) const {
  BlockSet rest = *this;
  rest.erase(other);
  return rest;
}

uint64_t BlockSet::count() const {
  uint64_t blocks = 0;
  for (const auto& [first, end] : runs_) blocks += (end - first) / kBlockBytes;
  return blocks;
}

std::vector<BlockRange> BlockSet::ranges() const {
  std::vector<BlockRange> ranges;
  ranges.reserve(runs_.size());
  for (const auto& [first, end] : runs_) ranges.push_back({BlockAddress{first}, (end - first) / kBlockBytes});
  return ranges;
}

bool BlockSet::for_each(uint64_t most, const std::function<bool(BlockRange)>& visit) const {
  for (BlockRange rest : ranges()) {
    while (rest.count > 0) {
      const BlockRange piece{rest.start, std::min(rest.count, most)};
      if (!visit(piece)) return false;
      rest = {piece.end(), rest.count - piece.count};
    }
  }
  return true;
}

}  // namespace brickfs
