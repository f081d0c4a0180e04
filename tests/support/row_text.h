// SPDX-License-Identifier: Apache-2.0
// Rows as lines of text, for comparing.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "fmt/core.h"
#include "fs/inode/rows.h"

namespace brickfs {

struct RowText final : RowVisitor {
  std::vector<std::string> lines;
  size_t fail_at = SIZE_MAX;  // with EIO, at the line of this index

  Status put(const InodeRow& row) override {
    return add(fmt::format("inode {} parent {} mode {:o} uid {} gid {} nlink {} rdev {} size {} times {} {} {} {} ->{}",
                           raw(row.ino), raw(row.parent), row.mode, row.uid, row.gid, row.nlink, row.rdev,
                           row.size_bytes, time(row.atime), time(row.mtime), time(row.ctime), time(row.btime),
                           row.symlink_target));
  }
  Status put(const DirentRow& row) override {
    return add(fmt::format("dirent {}/{} = {} type {} cookie {}", raw(row.directory), row.name, raw(row.ino), row.type,
                           row.cookie));
  }
  Status put(const ExtentRow& row) override {
    return add(fmt::format("extent {} {}+{} on {}{}", raw(row.ino), row.file_unit, row.count, row.volume_unit,
                           row.unwritten ? " unwritten" : ""));
  }
  Status put(const XattrRow& row) override {
    const std::string_view value(reinterpret_cast<const char*>(row.value.data()), row.value.size());
    return add(fmt::format("xattr {} {}={}", raw(row.ino), row.name, value));
  }
  Status put(const MemberRow& row) override {
    return add(fmt::format("member {} client {} token {} {}{}", row.session, row.client,
                           std::to_integer<int>(row.token[15]), row.name, row.read_only ? " read-only" : ""));
  }
  Status put(const ReplyRow& row) override {
    return add(
        fmt::format("reply {} slot {} number {} is {} {}", row.session, row.slot, row.number, row.first, row.second));
  }
  Status erase_member(uint64_t session) override { return add(fmt::format("erase member {}", session)); }
  Status put_orphan(Ino ino) override { return add(fmt::format("orphan {}", raw(ino))); }
  Status erase_inode(Ino ino) override { return add(fmt::format("erase inode {}", raw(ino))); }
  Status erase_dirent(Ino ino, std::string_view name) override {
    return add(fmt::format("erase dirent {}/{}", raw(ino), name));
  }
  Status erase_extents(Ino ino, uint64_t file_unit, uint64_t count) override {
    return add(fmt::format("erase extents {} {}+{}", raw(ino), file_unit, count));
  }
  Status erase_xattr(Ino ino, std::string_view name) override {
    return add(fmt::format("erase xattr {} {}", raw(ino), name));
  }
  Status erase_orphan(Ino ino) override { return add(fmt::format("erase orphan {}", raw(ino))); }

 private:
  static int64_t time(TimeNs time) { return static_cast<int64_t>(time); }
  Status add(std::string line) {
    if (lines.size() == fail_at) return Error(EIO, "as the test wants");
    lines.push_back(std::move(line));
    return {};
  }
};

}  // namespace brickfs
