// SPDX-License-Identifier: Apache-2.0
#include "fs/operations/new_inode.h"

#include "fs/inode/acl.h"
#include "fs/operations/filesystem_state.h"

namespace brickfs {
namespace {

// Programs that run as the group.
bool needs_group(uint32_t mode) { return !S_ISDIR(mode) && (mode & S_ISGID) != 0 && (mode & S_IXGRP) != 0; }

// As inode_init_owner() and mode_strip_sgid() of Linux.
void take_group(Inode& inode, const Inode& parent, const Caller& caller) {
  inode.gid = caller.gid;
  if ((parent.mode & S_ISGID) == 0) return;
  inode.gid = parent.gid;
  if (inode.is_directory()) {
    inode.mode |= S_ISGID;
  } else if (needs_group(inode.mode) && !is_in_group(caller, parent.gid)) {
    inode.mode &= ~uint32_t{S_ISGID};
  }
}

const std::vector<std::byte>* default_acl(const Inode& directory) {
  if (!directory.xattrs) return nullptr;
  const auto it = directory.xattrs->find(kDefaultAcl);
  return it == directory.xattrs->end() ? nullptr : &it->second;
}

// The parent's default ACL takes the place of the umask: posix_acl_create() of Linux.
Status take_permissions(Inode& inode, const Inode& parent, const Caller& caller) {
  if (inode.is_symlink()) return {};
  const std::vector<std::byte>* inherited = default_acl(parent);
  if (inherited == nullptr) {
    inode.mode &= ~(caller.umask & kPermissionBits);
    return {};
  }
  Acl acl = TRY(Acl::parse(*inherited));
  if (acl.empty()) return Error(EINVAL, "a stored ACL is empty");
  inode.mode = (inode.mode & ~kPermissionBits) | acl.inherit(inode.mode);
  if (!acl.is_minimal() || inode.is_directory()) inode.xattrs = std::make_unique<Xattrs>();
  if (!acl.is_minimal()) inode.xattrs->emplace(kAccessAcl, acl.bytes());
  if (inode.is_directory()) inode.xattrs->emplace(kDefaultAcl, *inherited);
  return {};
}

}  // namespace

bool is_in_group(const Caller& caller, uint32_t gid) {
  return caller.gid == gid || (caller.in_group && caller.in_group(gid));
}

Result<Caller> Filesystem::Impl::ask_group(Ino ino, const Caller& caller) {
  uint32_t gid = 0;
  {
    const InodeLocks lock(inodes, {ino}, InodeLocks::Mode::kShared);
    gid = TRY(find_inode(ino))->gid;
  }
  Caller known = caller;
  known.in_group = [gid, is_member = is_in_group(caller, gid)](uint32_t asked) { return asked == gid && is_member; };
  return known;
}

Result<Caller> Filesystem::Impl::ask_group_of_new(Ino directory, uint32_t mode, const Caller& caller) {
  return needs_group(mode) ? ask_group(directory, caller) : caller;
}

Result<std::unique_ptr<Inode>> make_inode(Ino number, const Inode& parent, const NewInode& what, const Caller& caller) {
  auto inode = std::make_unique<Inode>(number);
  inode->mode = what.mode;
  inode->uid = caller.uid;
  take_group(*inode, parent, caller);
  TRY(take_permissions(*inode, parent, caller));
  inode->atime = inode->mtime = inode->ctime = inode->btime = now();
  if (S_ISCHR(what.mode) || S_ISBLK(what.mode)) inode->rdev = what.rdev;
  if (inode->is_directory()) {
    inode->parent = parent.ino;
    inode->directory = std::make_unique<Directory>();
  }
  if (inode->is_symlink()) {
    inode->symlink_target = std::make_unique<std::string>(what.symlink_target);
    inode->size_bytes = what.symlink_target.size();
  }
  return inode;
}

}  // namespace brickfs
