// SPDX-License-Identifier: Apache-2.0
#include "fs/recovery/tree_check.h"

#include <fmt/core.h>

#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "fs/inode/inode_walk.h"
#include "transport/brick/limits.h"

namespace brickfs {
namespace {

using Area = Finding::Area;

constexpr uint64_t kProgressEvery = 65'536;

class TreeCheck {
 public:
  TreeCheck(const InodeTable& inodes, const Progress& progress, Findings& findings)
      : inodes_(inodes), progress_(progress), findings_(findings) {}
  void run();

 private:
  struct Links {
    uint32_t names = 0;    // entries that mean it
    bool reached = false;  // from the root, a directory
  };

  void count_entries(const Inode& directory);
  void walk_from_root();
  void check_inode(const Inode& inode);
  void check_directory(const Inode& directory, const Links& links);
  void check_other(const Inode& inode, const Links& links);
  void check_contents(const Inode& inode);
  void check_xattrs(const Inode& inode);
  void damage(Area area, const Inode& inode, const std::string& what);

  const InodeTable& inodes_;
  const Progress& progress_;
  Findings& findings_;
  absl::flat_hash_map<uint64_t, Links> links_;
};

void TreeCheck::run() {
  links_.reserve(inodes_.size());
  for_each_inode(inodes_, [this](const Inode& inode) {
    if (inode.is_directory()) count_entries(inode);
  });
  walk_from_root();
  uint64_t checked = 0;
  for_each_inode(inodes_, [&](const Inode& inode) {
    check_inode(inode);
    if (++checked % kProgressEvery == 0 && progress_) progress_("inodes checked", checked, inodes_.size());
  });
}

void TreeCheck::damage(Area area, const Inode& inode, const std::string& what) {
  findings_.damage(area, inode.ino, 0,
                   fmt::format("{} {}: {}", inode.is_directory() ? "directory" : "inode", raw(inode.ino), what));
}

void TreeCheck::count_entries(const Inode& directory) {
  uint64_t cookie = 0;
  while (const auto entry = directory.directory->after(cookie)) {
    cookie = entry->cookie;
    if (cookie < Directory::kFirstCookie)
      damage(Area::kDirectory, directory, fmt::format("entry \"{}\" has cookie {}", entry->name, cookie));
    const auto found = directory.directory->find(entry->name);
    if (!found || found->cookie != cookie) {
      damage(Area::kDirectory, directory, fmt::format("entry \"{}\" is there twice", entry->name));
    }
    ++links_[raw(entry->ino)].names;
  }
}

// Breadth first. A directory met again is left alone: its names are counted elsewhere.
void TreeCheck::walk_from_root() {
  std::vector<Ino> queue{kRootIno};
  links_[raw(kRootIno)].reached = true;
  for (size_t next = 0; next < queue.size(); ++next) {
    const Inode* const directory = inodes_.find(queue[next]);
    uint64_t cookie = 0;
    while (const auto entry = directory->directory->after(cookie)) {
      cookie = entry->cookie;
      const Inode* const named = inodes_.find(entry->ino);
      if (named == nullptr || !named->is_directory()) continue;
      bool& reached = links_[raw(entry->ino)].reached;
      if (!reached) queue.push_back(entry->ino);
      reached = true;
    }
  }
}

void TreeCheck::check_inode(const Inode& inode) {
  const auto at = links_.find(raw(inode.ino));
  const Links links = at == links_.end() ? Links{} : at->second;
  if (inode.is_directory()) {
    check_directory(inode, links);
  } else {
    check_other(inode, links);
  }
  check_contents(inode);
  check_xattrs(inode);
}

void TreeCheck::check_directory(const Inode& directory, const Links& links) {
  if (directory.orphan) return;
  const bool is_root = directory.ino == kRootIno;
  if (links.names != (is_root ? 0u : 1u)) damage(Area::kDirectory, directory, fmt::format("has {} names", links.names));
  if (!links.reached) damage(Area::kDirectory, directory, "cannot be reached from the root");
}

void TreeCheck::check_other(const Inode& inode, const Links& links) {
  if (!inode.orphan && inode.nlink != 0 && inode.nlink != links.names) {
    damage(Area::kInode, inode, fmt::format("link count {}, but it has {} name(s)", inode.nlink, links.names));
  }
}

void TreeCheck::check_contents(const Inode& inode) {
  if (inode.size_bytes > limits::kFileBytes)
    damage(Area::kInode, inode, fmt::format("size {} is beyond the limit", inode.size_bytes));
  if (inode.is_symlink()) {
    const size_t length = inode.symlink_target == nullptr ? 0 : inode.symlink_target->size();
    if (length == 0 || length > limits::kSymlinkBytes)
      damage(Area::kInode, inode, fmt::format("a symbolic link with a target of {} bytes", length));
    if (inode.size_bytes != length)
      damage(Area::kInode, inode, fmt::format("size {}, but the link's target has {} bytes", inode.size_bytes, length));
  }
  if (inode.extents == nullptr) return;
  uint64_t units = 0;
  uint64_t end = 0;
  for (auto extent = inode.extents->at_or_after(0); extent; extent = inode.extents->at_or_after(end)) {
    if (extent->file_unit < end || extent->count == 0) return damage(Area::kExtent, inode, "its extents overlap");
    units += extent->count;
    end = extent->end();
  }
  if (end > divide_up(limits::kFileBytes, kUnitBytes))
    damage(Area::kExtent, inode, "an extent is beyond the limit of a file's size");
  if (units != inode.extents->mapped_units()) damage(Area::kExtent, inode, "its extents do not add up");
}

void TreeCheck::check_xattrs(const Inode& inode) {
  if (inode.xattrs == nullptr) return;
  size_t total = 0;
  for (const auto& [name, value] : *inode.xattrs) {
    total += name.size() + value.size();
    if (name.empty() || name.size() > limits::kXattrNameBytes || value.size() > limits::kXattrValueBytes) {
      damage(Area::kInode, inode, fmt::format("attribute \"{}\" of {} bytes is beyond the limits", name, value.size()));
    }
  }
  if (total > limits::kXattrsBytesPerInode)
    damage(Area::kInode, inode, fmt::format("{} bytes of attributes are beyond the limit", total));
}

}  // namespace

void check_tree(const InodeTable& inodes, const Progress& progress, Findings& findings) {
  TreeCheck(inodes, progress, findings).run();
}

}  // namespace brickfs
