// SPDX-License-Identifier: Apache-2.0
// Builds the inode table from rows: those of a checkpoint, then those of the journal behind it.
//
// A checkpoint is fuzzy, so on the way rows may be about inodes that are not there (yet, or any more), and one unit may
// be in two files. The loader takes every row in any such order; judge() then looks at what came out.
//
// Threads: one, before the table is shared.
#pragma once

#include <string_view>
#include <vector>

#include "fs/base/finding.h"
#include "fs/inode/inode_table.h"
#include "fs/inode/member_register.h"
#include "fs/inode/rows.h"

namespace brickfs {

class TreeLoader final : public RowVisitor {
 public:
  explicit TreeLoader(InodeTable& inodes) : inodes_(inodes) {}

  Status put(const InodeRow& row) override;
  Status put(const DirentRow& row) override;
  Status put(const ExtentRow& row) override;
  Status put(const XattrRow& row) override;
  Status put(const MemberRow& row) override { return put_row(members_, row), Status(); }
  Status put(const ReplyRow& row) override { return put_row(members_, row), Status(); }
  Status put_orphan(Ino ino) override;
  Status erase_inode(Ino ino) override;
  Status erase_dirent(Ino directory, std::string_view name) override;
  Status erase_extents(Ino ino, uint64_t file_unit, uint64_t count) override;
  Status erase_xattr(Ino ino, std::string_view name) override;
  Status erase_orphan(Ino ino) override;
  Status erase_member(uint64_t session) override { return members_.erase(session), Status(); }

  // After the last row: numbers that the volume has seen are not given again.
  void end_rows();
  // Then: inodes that cannot be served are taken out of the table and reported, as is what would lead operations astray
  // (serving_rules.h). True if there is a root directory, without which nothing can be served.
  bool judge(Findings& findings);
  // Unlinked, but in use when the last holder ended. After judge().
  const std::vector<Ino>& orphans() const { return orphans_; }
  // Those that had not left.
  const KnownMembers& members() const { return members_; }

 private:
  Inode* find(Ino ino);
  Inode& find_or_make(Ino ino);
  bool judge_inode(const Inode& inode, Findings& findings) const;

  InodeTable& inodes_;
  Inode* recent_ = nullptr;  // rows come clustered by inode
  uint64_t highest_ = raw(kRootIno);
  std::vector<Ino> orphans_;
  KnownMembers members_;
};

}  // namespace brickfs
