// SPDX-License-Identifier: Apache-2.0
#include "transport/brick/block_set.h"

#include <algorithm>

namespace brickfs {

void BlockSet::insert(const BlockSet& other) {
  other.addresses_.for_each([this](const Addresses::Interval& run) {
    addresses_.insert(run);
    return true;
  });
}

void BlockSet::erase(const BlockSet& other) {
  other.addresses_.for_each([this](const Addresses::Interval& run) {
    addresses_.erase(run);
    return true;
  });
}

BlockSet BlockSet::intersection(BlockRange blocks) const {
  BlockSet common;
  addresses_.for_each(addresses_of(blocks), [&common](const Addresses::Interval& run) {
    common.addresses_.insert(run);
    return true;
  });
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

std::vector<BlockRange> BlockSet::ranges() const {
  std::vector<BlockRange> ranges;
  ranges.reserve(addresses_.intervals());
  addresses_.for_each([&ranges](const Addresses::Interval& run) {
    ranges.push_back({BlockAddress{run.first}, run.count() / kBlockBytes});
    return true;
  });
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
