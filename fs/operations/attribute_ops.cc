// SPDX-License-Identifier: Apache-2.0
// stat, chmod, chown, utimes. A change of size takes the others along in its transaction (set_size, with the data
// operations).
#include "fs/inode/acl.h"
#include "fs/operations/filesystem_state.h"
#include "fs/operations/new_inode.h"

namespace brickfs {
namespace {

using Mode = InodeLocks::Mode;

const std::vector<std::byte>* access_acl(const Inode& inode) {
  if (!inode.xattrs) return nullptr;
  const auto it = inode.xattrs->find(kAccessAcl);
  return it == inode.xattrs->end() ? nullptr : &it->second;
}

void set_mode(Transaction& transaction, Inode& inode, uint32_t mode, const Caller& caller) {
  inode.mode = (inode.mode & ~kModeBits) | (mode & kModeBits);
  if ((inode.mode & S_ISGID) != 0 && !is_in_group(caller, inode.gid)) inode.mode &= ~uint32_t{S_ISGID};
  const std::vector<std::byte>* stored = access_acl(inode);
  if (stored == nullptr) return;
  auto acl = Acl::parse(*stored);
  if (!acl.ok() || acl->empty()) return;
  acl->set_permissions(mode);
  std::vector<std::byte>& value = inode.xattrs->find(kAccessAcl)->second;
  value = acl->bytes();
  transaction.put(XattrRow{inode.ino, kAccessAcl, value});
}

}  // namespace

// Under the inode's exclusive lock; the caller puts it. As setattr_copy() and notify_change() of Linux.
void Filesystem::Impl::change_inode(Transaction& transaction, Inode& inode, const AttributeChange& change,
                                    const Caller& caller) {
  const bool changes_owner = change.uid || change.gid;
  const bool kills_own = change.kill_if_owner && caller.uid == inode.uid && caller.uid != 0;
  if (changes_owner || change.kill_privileges || kills_own) kill_privileges(transaction, inode, caller);
  if (change.uid) inode.uid = *change.uid;
  if (change.gid) inode.gid = *change.gid;
  if (change.mode) set_mode(transaction, inode, *change.mode, caller);
  if (change.atime) inode.atime = *change.atime;
  if (change.mtime) inode.mtime = *change.mtime;
  inode.ctime = change.ctime ? *change.ctime : now();
}

Result<Attributes> Filesystem::get_attributes(Ino ino, const OperationContext& context) {
  const InodeLocks lock(impl_->inodes, {ino}, Mode::kShared);
  return impl_->attributes_of(*TRY(impl_->find_inode(ino)), context);
}

bool Filesystem::take_told(Ino ino, const OperationContext& context) {
  const InodeLocks lock(impl_->inodes, {ino}, Mode::kShared);
  const Inode* const inode = impl_->inodes.find(ino);
  if (inode == nullptr) return false;
  const uint32_t whom = inode->told_to.exchange(Inode::kNobody);
  return whom == Inode::kSeveral || (whom != Inode::kNobody && whom != told_to(context));
}

Result<Attributes> Filesystem::set_attributes(Ino ino, const AttributeChange& change, const Caller& whose,
                                              const OperationContext& context) {
  const bool asks = change.mode && (*change.mode & S_ISGID) != 0 && !change.gid;
  const Caller caller = asks ? TRY(impl_->ask_group(ino, whose)) : whose;
  if (change.size_bytes) {
    const Impl::InodeEdit edit = [&](Transaction& transaction, Inode& inode) {
      impl_->change_inode(transaction, inode, change, caller);
    };
    TRY(impl_->set_size(ino, *change.size_bytes, edit, context));
    return get_attributes(ino, context);
  }
  TRY(impl_->admit_change(context));
  const InodeLocks lock(impl_->inodes, {ino}, Mode::kExclusive);
  Inode& inode = *TRY(impl_->find_inode(ino));
  Transaction transaction;
  impl_->change_inode(transaction, inode, change, caller);
  impl_->put_inode(transaction, inode);
  impl_->append(transaction, context);
  return impl_->attributes_of(inode, context);
}

}  // namespace brickfs
