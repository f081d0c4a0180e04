// SPDX-License-Identifier: Apache-2.0
// An inode in memory. Small on purpose: a volume holds millions, each some 280 bytes with its entry, one extent and its
// place in the table (measured with 10,000,000).
#pragma once

#include <dirent.h>
#include <sys/stat.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "fs/base/ids.h"
#include "fs/inode/cached_regions.h"
#include "fs/inode/directory.h"
#include "fs/inode/extent_map.h"
#include "fs/inode/rows.h"

namespace brickfs {

using Xattrs = std::map<std::string, std::vector<std::byte>, std::less<>>;

// Whether the mode says of what type the inode is.
bool is_file_type(uint32_t mode);

// All members but the atomic ones are guarded by the lock that InodeTable has for its number.
struct Inode {
  explicit Inode(Ino number) : ino(number) {}

  const Ino ino;
  Ino parent{};  // of a directory
  uint32_t mode = 0;
  uint32_t uid = 0;
  uint32_t gid = 0;
  uint32_t nlink = 0;
  uint32_t rdev = 0;
  std::atomic<uint32_t> references{0};  // the kernel's, in thousands of lookups at most; see Filesystem::forget
  uint64_t size_bytes = 0;
  TimeNs atime{};
  TimeNs mtime{};
  TimeNs ctime{};
  TimeNs btime{};
  bool orphan = false;  // unlinked, has an orphan row
  // Whose answers its attributes were in since Filesystem::take_told: the number of the
  // thread, if it was one (OperationContext).
  static constexpr uint32_t kNobody = 0;
  static constexpr uint32_t kSeveral = UINT32_MAX;  // or it is not known who
  mutable std::atomic<uint32_t> told_to{kNobody};
  mutable CachedRegions cached;  // in the kernel's page cache, perhaps
  bool linkable = false;         // made without a name (O_TMPFILE) and never had one; such an orphan may be linked
  uint32_t counted_units = 0;    // of its memory, 16 bytes each, in InodeTable::memory_bytes()

  std::unique_ptr<Xattrs> xattrs;        // null: none
  std::unique_ptr<Directory> directory;  // of a directory, from its making on
  std::unique_ptr<ExtentMap> extents;    // of a regular file with any
  std::unique_ptr<std::string> symlink_target;

  bool is_directory() const { return S_ISDIR(mode); }
  bool is_regular() const { return S_ISREG(mode); }
  bool is_symlink() const { return S_ISLNK(mode); }
  uint8_t dirent_type() const { return IFTODT(mode); }  // DT_*

  InodeRow row() const;         // views into this
  size_t memory_bytes() const;  // that this takes, with all it owns
};

}  // namespace brickfs
