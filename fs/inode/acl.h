// SPDX-License-Identifier: Apache-2.0
// POSIX access control lists, in the form the kernel gives them to file systems: the xattrs system.posix_acl_access and
// system.posix_acl_default, a header and entries of 8 bytes (linux/posix_acl_xattr.h). Rules: acl(5), and what
// Linux does in fs/posix_acl.c.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "transport/base/result.h"

namespace brickfs {

constexpr std::string_view kAccessAcl = "system.posix_acl_access";
constexpr std::string_view kDefaultAcl = "system.posix_acl_default";

constexpr uint32_t kPermissionBits = 0777;  // of a mode: what a list and a mode have in common

class Acl {
 public:
  // No bytes, or a header only: an empty list. EOPNOTSUPP: another version. EINVAL: not a valid list.
  static Result<Acl> parse(std::span<const std::byte> bytes);
  std::vector<std::byte> bytes() const;

  bool empty() const { return entries_.empty(); }
  // Owner, group and others only: says no more than nine mode bits do. Precondition of the rest: not empty.
  bool is_minimal() const { return entries_.size() == 3; }
  // The nine mode bits of an inode with this access list.
  uint32_t permissions() const;
  // As chmod does to an access list.
  void set_permissions(uint32_t mode);
  // Turns a directory's default list into the access list of an inode made in it with `mode`: neither allows more than
  // the other. Returns the inode's nine mode bits.
  uint32_t inherit(uint32_t mode);

 private:
  struct Entry {
    uint16_t tag;
    uint16_t permissions;  // rwx
    uint32_t id;           // of a named user or group
  };
  static_assert(sizeof(Entry) == 8);

  bool is_valid() const;
  Entry* find(uint16_t tag);
  const Entry* find(uint16_t tag) const { return const_cast<Acl*>(this)->find(tag); }
  // What the mode's group bits stand for: the mask if there is one.
  Entry& group_class();

  std::vector<Entry> entries_;
};

}  // namespace brickfs
