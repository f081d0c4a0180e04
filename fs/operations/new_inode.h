// SPDX-License-Identifier: Apache-2.0
// What a new inode gets from whoever makes it and from the directory it is made in: mode, group, ACLs, times.
#pragma once

#include <memory>
#include <string_view>

#include "fs/inode/inode.h"
#include "fs/operations/filesystem.h"

namespace brickfs {

constexpr uint32_t kModeBits = 07777;  // of a mode, that a program sets

struct NewInode {
  uint32_t mode = 0;  // with the type
  uint32_t rdev = 0;
  std::string_view symlink_target = {};
};

// Under the parent's lock. No links and no references yet. EINVAL: the parent's default ACL is damaged.
Result<std::unique_ptr<Inode>> make_inode(Ino number, const Inode& parent, const NewInode& what, const Caller& caller);

// True if the caller may make or keep set-group-id files of the group.
bool is_in_group(const Caller& caller, uint32_t gid);

}  // namespace brickfs
