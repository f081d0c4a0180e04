// SPDX-License-Identifier: Apache-2.0
// Extended attributes, and the POSIX ACLs among them. Who may touch which is the kernel's to say.
#include <sys/xattr.h>

#include <algorithm>

#include "fs/inode/acl.h"
#include "fs/operations/filesystem_state.h"
#include "fs/operations/link_attribute.h"
#include "fs/operations/new_inode.h"
#include "transport/brick/limits.h"

namespace brickfs {
namespace {

using Mode = InodeLocks::Mode;

constexpr std::string_view kTrusted = "trusted.";

bool is_acl(std::string_view name) { return name == kAccessAcl || name == kDefaultAcl; }

Status check_name(std::string_view name) {
  if (name.empty() || name.size() > limits::kXattrNameBytes) return Error(ERANGE, "the attribute's name is too long");
  if (name.find('\0') != name.npos) return Error(EINVAL, "the attribute's name has a zero byte");
  if (is_acl(name)) return {};
  for (const std::string_view space : {std::string_view("user."), kTrusted, std::string_view("security.")}) {
    if (!name.starts_with(space)) continue;
    if (name.size() == space.size()) return Error(EINVAL, "the attribute has no name in its namespace");
    return {};
  }
  return Error(EOPNOTSUPP, "no such namespace of attributes");
}

const std::vector<std::byte>* find_xattr(const Inode& inode, std::string_view name) {
  if (!inode.xattrs) return nullptr;
  const auto it = inode.xattrs->find(name);
  return it == inode.xattrs->end() ? nullptr : &it->second;
}

size_t stored_bytes(const Inode& inode) {
  size_t bytes = 0;
  if (!inode.xattrs) return bytes;
  for (const auto& [name, value] : *inode.xattrs) bytes += name.size() + value.size();
  return bytes;
}

Status check_set(const Inode& inode, std::string_view name, std::span<const std::byte> value, int flags) {
  const std::vector<std::byte>* old = find_xattr(inode, name);
  if (old != nullptr && (flags & XATTR_CREATE) != 0) return Error(EEXIST, "the attribute is there already");
  if (old == nullptr && (flags & XATTR_REPLACE) != 0) return Error(ENODATA, "no such attribute");
  const size_t others = stored_bytes(inode) - (old != nullptr ? name.size() + old->size() : 0);
  if (others + name.size() + value.size() > limits::kXattrsBytesPerInode) {
    return Error(ENOSPC, "too many attributes on one file");
  }
  return {};
}

bool has_value(const Inode& inode, std::string_view name, std::span<const std::byte> value) {
  const std::vector<std::byte>* const old = find_xattr(inode, name);
  return old != nullptr && std::ranges::equal(*old, value);
}

void put_xattr(Transaction& transaction, Inode& inode, std::string_view name, std::span<const std::byte> value) {
  if (!inode.xattrs) inode.xattrs = std::make_unique<Xattrs>();
  (*inode.xattrs)[std::string(name)].assign(value.begin(), value.end());
  transaction.put(XattrRow{inode.ino, name, value});
}

void erase_xattr(Transaction& transaction, Inode& inode, std::string_view name) {
  if (find_xattr(inode, name) == nullptr) return;
  transaction.erase_xattr(inode.ino, name);
  inode.xattrs->erase(inode.xattrs->find(name));
  if (inode.xattrs->empty()) inode.xattrs.reset();
}

// As posix_acl_update_mode() and the file systems of Linux: an access list sets the mode too, and is only stored where
// it says more than the mode.
Status set_acl(Transaction& transaction, Inode& inode, std::string_view name, std::span<const std::byte> value,
               const Caller& caller) {
  if (inode.is_symlink()) return Error(EOPNOTSUPP, "no ACLs on symbolic links");
  if (name == kDefaultAcl && !inode.is_directory()) return Error(EACCES, "default ACLs are for directories");
  const Acl acl = TRY(Acl::parse(value));
  const bool is_access = name == kAccessAcl;
  if (is_access && !acl.empty()) {
    inode.mode = (inode.mode & ~kPermissionBits) | acl.permissions();
    if ((inode.mode & S_ISGID) != 0 && !is_in_group(caller, inode.gid)) inode.mode &= ~uint32_t{S_ISGID};
  }
  if (acl.empty() || (is_access && acl.is_minimal())) {
    erase_xattr(transaction, inode, name);
  } else if (!has_value(inode, name, value)) {
    put_xattr(transaction, inode, name, value);
  }
  return {};
}

}  // namespace

Status Filesystem::set_xattr(Ino ino, std::string_view name, std::span<const std::byte> value, int flags,
                             const Caller& caller, const OperationContext& context) {
  TRY(check_name(name));
  if (value.size() > limits::kXattrValueBytes) return Error(E2BIG, "the attribute's value is too long");
  TRY(impl_->admit_growth(context));
  const InodeLocks lock(impl_->inodes, {ino}, Mode::kExclusive);
  Inode& inode = *TRY(impl_->find_inode(ino));
  TRY(check_set(inode, name, value, flags));
  const uint32_t mode = inode.mode;
  Transaction transaction;
  if (is_acl(name)) {
    TRY(set_acl(transaction, inode, name, value, caller));
  } else if (!has_value(inode, name, value)) {
    put_xattr(transaction, inode, name, value);
  }
  if (transaction.empty() && inode.mode == mode) return {};  // as ext4: nothing is stamped, either
  inode.ctime = now();
  impl_->put_inode(transaction, inode);
  impl_->append(transaction, context);
  return {};
}

Result<std::vector<std::byte>> Filesystem::get_xattr(Ino ino, std::string_view name, const OperationContext&) {
  if (ino == kRootIno && name == kLinkAttribute) return describe_link(*this);
  TRY(check_name(name));
  const InodeLocks lock(impl_->inodes, {ino}, Mode::kShared);
  const std::vector<std::byte>* value = find_xattr(*TRY(impl_->find_inode(ino)), name);
  if (value == nullptr) return Error(ENODATA, "no such attribute");
  return *value;
}

Result<std::vector<std::byte>> Filesystem::list_xattr(Ino ino, const Caller& caller, const OperationContext&) {
  const InodeLocks lock(impl_->inodes, {ino}, Mode::kShared);
  const Inode& inode = *TRY(impl_->find_inode(ino));
  std::vector<std::byte> names;
  if (!inode.xattrs) return names;
  std::optional<bool> sees_trusted;
  for (const auto& [name, value] : *inode.xattrs) {
    if (name.starts_with(kTrusted)) {
      if (!sees_trusted) sees_trusted = caller.is_administrator && caller.is_administrator();
      if (!*sees_trusted) continue;
    }
    const auto bytes = std::as_bytes(std::span(name.c_str(), name.size() + 1));
    names.insert(names.end(), bytes.begin(), bytes.end());
  }
  return names;
}

Status Filesystem::remove_xattr(Ino ino, std::string_view name, const OperationContext& context) {
  TRY(check_name(name));
  TRY(impl_->admit_change(context));
  const InodeLocks lock(impl_->inodes, {ino}, Mode::kExclusive);
  Inode& inode = *TRY(impl_->find_inode(ino));
  if (find_xattr(inode, name) == nullptr) {
    if (is_acl(name)) return {};  // as Linux
    return Error(ENODATA, "no such attribute");
  }
  Transaction transaction;
  erase_xattr(transaction, inode, name);
  inode.ctime = now();
  impl_->put_inode(transaction, inode);
  impl_->append(transaction, context);
  return {};
}

}  // namespace brickfs
