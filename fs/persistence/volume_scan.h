// SPDX-License-Identifier: Apache-2.0
// All rows of a volume, for a checkpoint: its tree's, then those of the members that share it. Threads: one.
#pragma once

#include <cstddef>

#include "fs/inode/inode_table.h"
#include "fs/inode/member_register.h"
#include "fs/inode/rows.h"
#include "fs/persistence/tree_scan.h"

namespace brickfs {

class VolumeScan final : public RowSource {
 public:
  VolumeScan(InodeTable& inodes, const MemberRegister& members) : tree_(inodes), members_(members) {}
  bool next(Transaction& out, size_t bytes) override {
    if (in_tree_ && tree_.next(out, bytes)) return true;
    if (in_tree_) members_.put_all(out);
    in_tree_ = false;
    return false;
  }

 private:
  TreeScan tree_;
  const MemberRegister& members_;
  bool in_tree_ = true;
};

}  // namespace brickfs
