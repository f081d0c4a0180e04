// SPDX-License-Identifier: Apache-2.0
#include "fs/inode/inode.h"

#include "fs/base/memory_size.h"

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

size_t Inode::memory_bytes() const {
  size_t bytes = allocated_bytes(sizeof(Inode));
  if (directory) bytes += directory->memory_bytes();
  if (extents) bytes += extents->memory_bytes();
  if (symlink_target) bytes += allocated_bytes(sizeof(std::string)) + allocated_bytes(symlink_target->capacity() + 1);
  if (xattrs) {
    bytes += allocated_bytes(sizeof(Xattrs));
    for (const auto& [name, value] : *xattrs) {
      constexpr size_t kNodeBytes = 32;  // of std::map, before its value
      bytes += allocated_bytes(kNodeBytes + sizeof(Xattrs::value_type));
      bytes += allocated_bytes(name.capacity() + 1) + allocated_bytes(value.capacity());
    }
  }
  return bytes;
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
