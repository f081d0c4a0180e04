// SPDX-License-Identifier: Apache-2.0
// Where the bytes of one file are: runs of file units on volume units, ascending, not overlapping, merged where
// neighbours continue each other. Most files have none or one extent, which takes no allocation. Threads: none of its
// own; guarded by the inode's lock.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/inlined_vector.h"
#include "fs/base/ids.h"

namespace brickfs {

struct Extent {
  uint64_t file_unit = 0;
  uint64_t count = 0;
  uint64_t volume_unit = 0;
  bool unwritten = false;  // reads as zeros

  uint64_t end() const { return file_unit + count; }
  bool operator==(const Extent&) const = default;
};

// Those of one request: mostly one or two.
using ExtentList = absl::InlinedVector<Extent, 4>;

class ExtentMap {
 public:
  // Maps the extent's range, replacing what was there. Appends the volume runs that are not mapped any more to `freed`
  // if not null.
  void map(const Extent& extent, std::vector<UnitRun>* freed);
  void unmap(uint64_t file_unit, uint64_t count,
             std::vector<UnitRun>* freed);  // count may reach to the end: UINT64_MAX - file_unit
  // The part of the map within [file_unit, + count): extents cut to it, ascending, holes left out.
  ExtentList find(uint64_t file_unit, uint64_t count) const;
  // The first extent that ends behind file_unit (contains it or begins after it).
  std::optional<Extent> at_or_after(uint64_t file_unit) const;
  std::optional<Extent> last() const;
  uint64_t mapped_units() const { return mapped_units_; }
  bool empty() const { return mapped_units_ == 0; }
  size_t extents() const;
  size_t memory_bytes() const;  // that this takes

 private:
  struct Place {
    uint64_t count;
    uint64_t volume_unit;
    bool unwritten;
  };
  using Tree = absl::btree_map<uint64_t, Place>;

  static Extent extent_at(Tree::const_iterator it);
  Tree::iterator first_ending_behind(uint64_t file_unit) const;         // these four: tree_ is there
  void cut(uint64_t first, uint64_t end, std::vector<UnitRun>* freed);  // nothing of [first, end) stays mapped
  void insert(const Extent& extent);  // where nothing is mapped; merges with its neighbours
  void fold_tree();                   // back into only_ if it has no more than one extent
  void grow_tree();

  uint64_t mapped_units_ = 0;
  Extent only_;                 // valid while tree_ is null and mapped_units_ > 0
  std::unique_ptr<Tree> tree_;  // from the second extent on
};

}  // namespace brickfs
