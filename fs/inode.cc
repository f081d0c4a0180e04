// SPDX-License-Identifier: Apache-2.0
#include "fs/inode.h"

namespace brickfs {

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
