// SPDX-License-Identifier: Apache-2.0
// Metadata as rows, and a transaction as the rows one operation changes. Encoding: docs/format.md, section "Rows".
//
// Each row is the whole new state of its key (an attribute set, a name, a range of a file, an attribute), so applying
// rows again, in order, onto any state between the first and the last converges on the last: what replay onto a fuzzy
// checkpoint relies on.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "fs/base/ids.h"
#include "transport/base/result.h"

namespace brickfs {

struct InodeRow {
  Ino ino{};
  Ino parent{};       // of a directory (the root's is itself); 0 for everything else
  uint32_t mode = 0;  // type and permissions, as in stat
  uint32_t uid = 0;
  uint32_t gid = 0;
  uint32_t nlink = 0;
  uint32_t rdev = 0;  // of a device file, as Linux encodes it (new_encode_dev)
  uint64_t size_bytes = 0;
  TimeNs atime{};
  TimeNs mtime{};
  TimeNs ctime{};
  TimeNs btime{};
  std::string_view symlink_target;  // of a symbolic link
};

struct DirentRow {
  Ino directory{};
  std::string_view name;
  Ino ino{};
  uint8_t type = 0;     // DT_*
  uint64_t cookie = 0;  // directory offset: grows with each entry made in the directory
};

// [file_unit, + count) of the file lies on volume units [volume_unit, + count). Replaces whatever the range was mapped
// to.
struct ExtentRow {
  Ino ino{};
  uint64_t file_unit = 0;
  uint64_t count = 0;
  uint64_t volume_unit = 0;
  bool unwritten = false;  // preallocated: reads as zeros (fallocate)
};

struct XattrRow {
  Ino ino{};
  std::string_view name;
  std::span<const std::byte> value;
};

// A machine that is a member of a shared volume, as long as its session lasts (docs/shared.md).
struct MemberRow {
  uint64_t session = 0;
  uint64_t client = 0;  // as the bricks know that machine
  std::array<std::byte, 16> token{};
  bool read_only = false;
  std::string_view name;  // for people
};

// The last call of one of a member's slots that changed anything, and what else than its request tells the answer.
struct ReplyRow {
  static constexpr uint32_t kSlots = 64;

  uint64_t session = 0;
  uint32_t slot = 0;
  uint64_t number = 0;
  uint64_t first = 0;
  uint64_t second = 0;
};

// The rows that one operation puts and erases, encoded as they come.
class Transaction {
 public:
  void put(const InodeRow& row);
  void put(const DirentRow& row);
  void put(const ExtentRow& row);
  void put(const XattrRow& row);
  void put(const MemberRow& row);
  void put(const ReplyRow& row);  // of a member that there is
  void put_orphan(Ino ino);       // unlinked but in use: deleted by the next mount
  void erase_inode(Ino ino);      // with its extents, xattrs and orphan row; its directory entries must be gone
  void erase_dirent(Ino directory, std::string_view name);
  void erase_extents(Ino ino, uint64_t file_unit, uint64_t count);  // count may be UINT64_MAX - file_unit: to the end
  void erase_xattr(Ino ino, std::string_view name);
  void erase_orphan(Ino ino);
  void erase_member(uint64_t session);  // with its replies

  bool empty() const { return bytes_.empty(); }
  std::span<const std::byte> bytes() const { return bytes_; }
  void clear() { bytes_.clear(); }

 private:
  std::vector<std::byte> bytes_;
};

// Receives decoded rows. Views in them are valid during the call. An error stops the decoding and is returned.
class RowVisitor {
 public:
  virtual ~RowVisitor() = default;
  virtual Status put(const InodeRow& row) = 0;
  virtual Status put(const DirentRow& row) = 0;
  virtual Status put(const ExtentRow& row) = 0;
  virtual Status put(const XattrRow& row) = 0;
  virtual Status put(const MemberRow& row) = 0;
  virtual Status put(const ReplyRow& row) = 0;
  virtual Status put_orphan(Ino ino) = 0;
  virtual Status erase_inode(Ino ino) = 0;
  virtual Status erase_dirent(Ino directory, std::string_view name) = 0;
  virtual Status erase_extents(Ino ino, uint64_t file_unit, uint64_t count) = 0;
  virtual Status erase_xattr(Ino ino, std::string_view name) = 0;
  virtual Status erase_orphan(Ino ino) = 0;
  virtual Status erase_member(uint64_t session) = 0;
};

// EUCLEAN for anything that Transaction would not have written (also names and ranges out of bounds).
Status decode_rows(std::span<const std::byte> bytes, RowVisitor& visitor);

// Length of the first row, not validated beyond that. EUCLEAN: not a whole row.
Result<size_t> first_row_bytes(std::span<const std::byte> bytes);

// Rows of a whole tree in pieces, for a checkpoint: appends about `bytes` more puts to `out`; false when there are no
// more. May run while operations go on; then each row is as it was at some instant during the scan.
class RowSource {
 public:
  virtual ~RowSource() = default;
  virtual bool next(Transaction& out, size_t bytes) = 0;
};

}  // namespace brickfs
