// SPDX-License-Identifier: Apache-2.0
#include "fs/inode/inode.h"

namespace brickfs {

bool is_file_type(uint32_t mode) {
  switch (mode & S_IFMT) {
    case S_IFREG:
    case S_IFDIR:
    case S_IFLNK:
    case S_IFCHR:
    case S_IFBLK:
    case S_IFIFO:
    case S_IFSOCK:
      return true;
    default:
      return false;
  }
}

InodeRow Inode::row() const {
  InodeRow row;
  row.ino = ino;
  row.parent = parent;
  row.mode = mode;
  row.uid = uid;
  row.gid = gid;
  row.nlink = nlink;
  row.rdev = rdev;
  row.size_bytes = size_bytes;
  row.atime = atime;
  row.mtime = mtime;
  row.ctime = ctime;
  row.btime = btime;
  if (symlink_target) row.symlink_target = *symlink_target;
  return row;
}

}  // namespace brickfs
