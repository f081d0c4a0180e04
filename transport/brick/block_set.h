// SPDX-License-Identifier: Apache-2.0
// A set of blocks, kept as maximal runs: small where neighbours go together, O(log runs) to ask and to change.
// Threads: none of its own.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "transport/base/interval_set.h"
#include "transport/brick/block.h"

namespace brickfs {

class BlockSet {
 public:
  BlockSet() = default;
  explicit BlockSet(std::span<const BlockRange> ranges) {
    for (const BlockRange& range : ranges) insert(range);
  }

  // Of valid ranges only (is_valid).
  void insert(BlockRange blocks) { addresses_.insert(addresses_of(blocks)); }
  void erase(BlockRange blocks) { addresses_.erase(addresses_of(blocks)); }
  void insert(const BlockSet& other);
  void erase(const BlockSet& other);

  bool contains(BlockRange blocks) const { return addresses_.contains_all(addresses_of(blocks)); }
  bool intersects(BlockRange blocks) const { return addresses_.contains_any(addresses_of(blocks)); }
  BlockSet intersection(BlockRange blocks) const;
  BlockSet intersection(const BlockSet& other) const;
  BlockSet without(const BlockSet& other) const;

  bool empty() const { return addresses_.empty(); }
  uint64_t count() const { return addresses_.count() / kBlockBytes; }
  void clear() { addresses_.clear(); }
  std::vector<BlockRange> ranges() const;  // ascending, maximal
  // The runs in pieces of at most `most` blocks, ascending; stops at the first false.
  bool for_each(uint64_t most, const std::function<bool(BlockRange)>& visit) const;

  bool operator==(const BlockSet&) const = default;

 private:
  using Addresses = IntervalSet<uint64_t>;
  static Addresses::Interval addresses_of(BlockRange blocks) { return {raw(blocks.start), raw(blocks.end())}; }

  Addresses addresses_;
};

}  // namespace brickfs
