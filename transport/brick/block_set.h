// SPDX-License-Identifier: Apache-2.0
// A set of blocks, kept as maximal runs: small where neighbours go together, O(log runs) to ask and to change.
// Threads: none of its own.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "absl/container/btree_map.h"
#include "transport/brick/block.h"

namespace brickfs {

class BlockSet {
 public:
  BlockSet() = default;
  explicit BlockSet(std::span<const BlockRange> ranges) {
    for (const BlockRange& range : ranges) insert(range);
  }

  // Of valid ranges only (is_valid).
  void insert(BlockRange blocks);
  void erase(BlockRange blocks);
  void insert(const BlockSet& other);
  void erase(const BlockSet& other);

  bool contains(BlockRange blocks) const;    // all of them
  bool intersects(BlockRange blocks) const;  // any of them
  BlockSet intersection(BlockRange blocks) const;
  BlockSet intersection(const BlockSet& other) const;
  BlockSet without(const BlockSet& other) const;

  bool empty() const { return runs_.empty(); }
  uint64_t count() const;
  void clear() { runs_.clear(); }
  std::vector<BlockRange> ranges() const;  // ascending, maximal
  // The runs in pieces of at most `most` blocks, ascending; stops at the first false.
  bool for_each(uint64_t most, const std::function<bool(BlockRange)>& visit) const;

  bool operator==(const BlockSet&) const = default;

 private:
  absl::btree_map<uint64_t, uint64_t> runs_;  // first block's address -> address behind the last; never touching
};

}  // namespace brickfs
