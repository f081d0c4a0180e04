// SPDX-License-Identifier: Apache-2.0
// The rows of a live inode table, inode by inode, for a checkpoint. Takes one inode's lock at a time, shared and for a
// bounded number of rows, so operations go on meanwhile; replaying the journal from before the scan makes up for what
// they changed (fs/inode/rows.h). Threads: one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "fs/inode/inode_table.h"
#include "fs/inode/rows.h"

namespace brickfs {

class TreeScan final : public RowSource {
 public:
  explicit TreeScan(InodeTable& inodes) : inodes_(inodes), end_(inodes.next_number()) {}
  // True if it appended anything.
  bool next(Transaction& out, size_t bytes) override;

 private:
  enum class Step { kAttributes, kEntries, kExtents };

  bool refill();
  bool scan_some(Ino ino, Transaction& out);
  void scan_attributes(Inode& inode, Transaction& out);
  bool scan_entries(const Inode& inode, Transaction& out);
  bool scan_extents(const Inode& inode, Transaction& out);

  InodeTable& inodes_;
  const Ino end_;             // what is made during the scan is in the journal
  std::vector<Ino> numbers_;  // to scan next
  size_t position_ = 0;       // in numbers_
  Ino refill_from_{1};
  Step step_ = Step::kAttributes;  // of the inode at position_
  uint64_t cursor_ = 0;            // cookie or file unit, within the step
};

}  // namespace brickfs
