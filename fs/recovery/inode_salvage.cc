// SPDX-License-Identifier: Apache-2.0
#include "fs/recovery/inode_salvage.h"

#include <fmt/core.h>

#include <algorithm>
#include <string>

#include "transport/brick/limits.h"

namespace brickfs {
namespace {

using Area = Finding::Area;

void note(Findings& repairs, const Inode& inode, Area area, const std::string& what) {
  repairs.repair(area, inode.ino, fmt::format("inode {}: {}", raw(inode.ino), what));
}

uint64_t end_of_extents(const Inode& inode) {
  const auto last = inode.extents == nullptr ? std::nullopt : inode.extents->last();
  return last ? std::min(last->end() * kUnitBytes, limits::kFileBytes) : 0;
}

// For an inode without a row.
bool make_row(Inode& inode, TimeNs time, Findings& repairs) {
  if (inode.directory == nullptr && inode.extents == nullptr) {
    note(repairs, inode, Area::kInode, "its row is lost, and nothing else of it is left: removed");
    return false;
  }
  const bool is_directory = inode.directory != nullptr;
  inode.mode = is_directory ? S_IFDIR | 0700 : S_IFREG | 0600;
  inode.uid = inode.gid = 0;
  inode.size_bytes = is_directory ? 0 : end_of_extents(inode);
  inode.atime = inode.mtime = inode.ctime = inode.btime = time;
  inode.orphan = false;
  const std::string what = is_directory ? fmt::format("directory of {} entries", inode.directory->size())
                                        : fmt::format("file of {} bytes", inode.size_bytes);
  note(repairs, inode, Area::kInode,
       fmt::format("its row is lost: made anew as a {} of root's, for nobody else", what));
  return true;
}

void drop_what_does_not_fit(Inode& inode, Findings& repairs) {
  if (inode.directory != nullptr && !inode.is_directory()) {
    note(repairs, inode, Area::kDirectory,
         fmt::format("is no directory, but had {} entries: they are dropped", inode.directory->size()));
    inode.directory.reset();
  }
  if (inode.extents != nullptr && !inode.is_regular()) {
    note(repairs, inode, Area::kExtent,
         fmt::format("is no regular file, but had {} units of data: dropped", inode.extents->mapped_units()));
    inode.extents.reset();
  }
}

void mend_link_size(Inode& inode, Findings& repairs) {
  const uint64_t length = inode.symlink_target->size();
  if (inode.size_bytes == length) return;
  note(repairs, inode, Area::kInode,
       fmt::format("size {} corrected to its target's {} bytes", inode.size_bytes, length));
  inode.size_bytes = length;
}

// Beyond what one inode may have; each by itself is within its limits, or its row would not have been read.
void drop_excess_attributes(Inode& inode, Findings& repairs) {
  if (inode.xattrs == nullptr) return;
  size_t total = 0;
  for (auto at = inode.xattrs->begin(); at != inode.xattrs->end();) {
    const size_t bytes = at->first.size() + at->second.size();
    if (total + bytes <= limits::kXattrsBytesPerInode) {
      total += bytes;
      ++at;
      continue;
    }
    note(repairs, inode, Area::kInode,
         fmt::format("has too many attributes: \"{}\" of {} bytes is removed", at->first, at->second.size()));
    at = inode.xattrs->erase(at);
  }
}

}  // namespace

bool salvage_inode(Inode& inode, TimeNs time, Findings& repairs) {
  if (!is_file_type(inode.mode) && !make_row(inode, time, repairs)) return false;
  drop_what_does_not_fit(inode, repairs);
  if (inode.is_symlink()) mend_link_size(inode, repairs);
  drop_excess_attributes(inode, repairs);
  return true;
}

void move_contents(Inode& from, Inode& to) {
  to.parent = from.parent;
  to.mode = from.mode;
  to.uid = from.uid;
  to.gid = from.gid;
  to.nlink = from.nlink;
  to.rdev = from.rdev;
  to.size_bytes = from.size_bytes;
  to.atime = from.atime;
  to.mtime = from.mtime;
  to.ctime = from.ctime;
  to.btime = from.btime;
  to.orphan = from.orphan;
  to.linkable = from.linkable;
  to.xattrs = std::move(from.xattrs);
  to.directory = std::move(from.directory);
  to.extents = std::move(from.extents);
  to.symlink_target = std::move(from.symlink_target);
}

}  // namespace brickfs
