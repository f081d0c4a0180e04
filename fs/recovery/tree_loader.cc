// SPDX-License-Identifier: Apache-2.0
#include "fs/recovery/tree_loader.h"

#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "fs/inode/inode_walk.h"
#include "fs/recovery/serving_rules.h"

namespace brickfs {
Inode* TreeLoader::find(Ino ino) {
  if (recent_ != nullptr && recent_->ino == ino) return recent_;
  Inode* const found = inodes_.find(ino);
  if (found != nullptr) recent_ = found;
  return found;
}

// A made one has mode 0 until its own row comes.
Inode& TreeLoader::find_or_make(Ino ino) {
  if (Inode* const found = find(ino)) return *found;
  highest_ = std::max(highest_, raw(ino));
  recent_ = inodes_.insert(std::make_unique<Inode>(ino));
  return *recent_;
}

Status TreeLoader::put(const InodeRow& row) {
  Inode& inode = find_or_make(row.ino);
  inode.parent = row.parent;
  inode.mode = row.mode;
  inode.uid = row.uid;
  inode.gid = row.gid;
  inode.nlink = row.nlink;
  inode.rdev = row.rdev;
  inode.size_bytes = row.size_bytes;
  inode.atime = row.atime;
  inode.mtime = row.mtime;
  inode.ctime = row.ctime;
  inode.btime = row.btime;
  if (inode.is_directory() && inode.directory == nullptr) inode.directory = std::make_unique<Directory>();
  inode.symlink_target = inode.is_symlink() ? std::make_unique<std::string>(row.symlink_target) : nullptr;
  return {};
}

Status TreeLoader::put(const DirentRow& row) {
  Inode& directory = find_or_make(row.directory);
  if (directory.directory == nullptr) directory.directory = std::make_unique<Directory>();
  directory.directory->put(row.name, row.ino, row.type, row.cookie);
  return {};
}

Status TreeLoader::put(const ExtentRow& row) {
  Inode& inode = find_or_make(row.ino);
  if (inode.extents == nullptr) inode.extents = std::make_unique<ExtentMap>();
  inode.extents->map({row.file_unit, row.count, row.volume_unit, row.unwritten}, nullptr);
  return {};
}

Status TreeLoader::put(const XattrRow& row) {
  Inode& inode = find_or_make(row.ino);
  if (inode.xattrs == nullptr) inode.xattrs = std::make_unique<Xattrs>();
  (*inode.xattrs)[std::string(row.name)].assign(row.value.begin(), row.value.end());
  return {};
}

Status TreeLoader::put_orphan(Ino ino) {
  find_or_make(ino).orphan = true;
  return {};
}

Status TreeLoader::erase_inode(Ino ino) {
  highest_ = std::max(highest_, raw(ino));
  if (recent_ != nullptr && recent_->ino == ino) recent_ = nullptr;
  if (inodes_.find(ino) != nullptr) inodes_.erase(ino);
  return {};
}

Status TreeLoader::erase_dirent(Ino directory, std::string_view name) {
  Inode* const inode = find(directory);
  if (inode != nullptr && inode->directory != nullptr) inode->directory->erase(name);
  return {};
}

Status TreeLoader::erase_extents(Ino ino, uint64_t file_unit, uint64_t count) {
  Inode* const inode = find(ino);
  if (inode == nullptr || inode->extents == nullptr) return {};
  inode->extents->unmap(file_unit, count, nullptr);
  if (inode->extents->empty()) inode->extents.reset();
  return {};
}

Status TreeLoader::erase_xattr(Ino ino, std::string_view name) {
  Inode* const inode = find(ino);
  if (inode == nullptr || inode->xattrs == nullptr) return {};
  const auto at = inode->xattrs->find(name);
  if (at != inode->xattrs->end()) inode->xattrs->erase(at);
  if (inode->xattrs->empty()) inode->xattrs.reset();
  return {};
}

Status TreeLoader::erase_orphan(Ino ino) {
  if (Inode* const inode = find(ino)) inode->orphan = false;
  return {};
}

void TreeLoader::end_rows() {
  recent_ = nullptr;
  inodes_.raise_next(Ino{highest_ + 1});
}

bool TreeLoader::judge(Findings& findings) {
  std::vector<Ino> broken;
  for_each_inode(inodes_, [&](const Inode& inode) {
    if (!judge_inode(inode, findings)) {
      broken.push_back(inode.ino);
    } else if (inode.orphan) {
      orphans_.push_back(inode.ino);
    }
  });
  for (const Ino ino : broken) inodes_.erase(ino);
  judge_for_serving(inodes_, findings);

  const Inode* const root = inodes_.find(kRootIno);
  return root != nullptr && root->is_directory();
}

// False: it cannot be served.
bool TreeLoader::judge_inode(const Inode& inode, Findings& findings) const {
  const auto damage = [&](std::string text) {
    findings.damage(Finding::Area::kInode, inode.ino, 0, std::move(text));
    return false;
  };
  if (inode.mode == 0) return damage(fmt::format("inode {}: parts of it exist, but not its row", raw(inode.ino)));
  if (!is_file_type(inode.mode))
    return damage(fmt::format("inode {}: unknown type in mode {:o}", raw(inode.ino), inode.mode));
  if (inode.directory != nullptr && !inode.is_directory()) {
    return damage(fmt::format("inode {}: has entries, but is not a directory", raw(inode.ino)));
  }
  if (inode.extents != nullptr && !inode.is_regular()) {
    return damage(fmt::format("inode {}: has extents, but is not a regular file", raw(inode.ino)));
  }
  return true;
}

}  // namespace brickfs
