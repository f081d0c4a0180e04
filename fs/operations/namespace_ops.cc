// SPDX-License-Identifier: Apache-2.0
// Names: finding, making and removing them. Each change is one transaction, appended under the locks of all inodes it
// is about.
#include "fs/base/names.h"
#include "fs/operations/filesystem_state.h"
#include "fs/operations/new_inode.h"
#include "transport/brick/limits.h"

namespace brickfs {
namespace {

using Mode = InodeLocks::Mode;

}  // namespace

Status check_room_for_name(const Inode& directory) {
  return directory.directory->has_room() ? Status() : Error(ENOSPC, "the directory has no more offsets for names");
}

void Filesystem::Impl::add_name(Transaction& transaction, Inode& directory, std::string_view name, const Inode& inode,
                                TimeNs time) {
  const uint8_t type = inode.dirent_type();
  const uint64_t cookie = directory.directory->insert(name, inode.ino, type);
  transaction.put(DirentRow{directory.ino, name, inode.ino, type, cookie});
  directory.mtime = directory.ctime = time;
}

void Filesystem::Impl::remove_name(Transaction& transaction, Inode& directory, std::string_view name, TimeNs time) {
  transaction.erase_dirent(directory.ino, name);
  directory.directory->erase(name);
  directory.mtime = directory.ctime = time;
}

Result<Attributes> Filesystem::Impl::make(Ino directory, std::string_view name, const NewInode& what,
                                          const Caller& whose, const OperationContext& context) {
  TRY(check_new_name(name));
  TRY(admit_growth(context));
  const Caller caller = TRY(ask_group_of_new(directory, what.mode, whose));
  const Ino number = TRY(inodes.new_number());
  const InodeLocks locks(inodes, {directory, number}, Mode::kExclusive);
  Inode& parent = *TRY(find_live_directory(directory));
  if (parent.directory->find(name)) return Error(EEXIST, "the name is there already");
  TRY(check_room_for_name(parent));
  const bool makes_directory = S_ISDIR(what.mode);
  if (makes_directory && parent.nlink >= limits::kLinksPerInode) return Error(EMLINK, "too many directories in one");
  Inode& inode = *inodes.insert(TRY(make_inode(number, parent, what, caller)));
  inode.nlink = makes_directory ? 2 : 1;
  inode.references = 1;

  Transaction transaction;
  put_new_inode(transaction, inode);
  add_name(transaction, parent, name, inode, inode.ctime);
  if (makes_directory) ++parent.nlink;
  put_inode(transaction, parent);
  append(transaction, context, {.first = raw(number)});
  return attributes_of(inode, context);
}

void Filesystem::Impl::put_new_inode(Transaction& transaction, Inode& inode) {
  put_inode(transaction, inode);
  if (!inode.xattrs) return;
  for (const auto& [name, value] : *inode.xattrs) transaction.put(XattrRow{inode.ino, name, value});
}

Result<Attributes> Filesystem::lookup(Ino directory, std::string_view name, const OperationContext& context) {
  if (name.size() > limits::kNameBytes) return Error(ENAMETOOLONG, "the name is too long");
  if (name == "." || name == "..")
    return impl_->lookup_number(name == "." ? directory : TRY(impl_->parent_of(directory)), context);
  std::optional<InodeLocks> locks;
  Inode& inode = *TRY(impl_->lock_entry(locks, directory, name, Mode::kShared));
  inode.references.fetch_add(1);
  return impl_->attributes_of(inode, context);
}

void Filesystem::forget(Ino ino, uint64_t references) {
  {
    const InodeLocks lock(impl_->inodes, {ino}, Mode::kShared);
    Inode* inode = impl_->inodes.find(ino);
    if (inode == nullptr) return;
    uint32_t had = inode->references.load();
    uint32_t left = 0;
    do {
      left = had > references ? had - static_cast<uint32_t>(references) : 0;
    } while (!inode->references.compare_exchange_weak(had, left));
    if (left > 0 || inode->nlink > 0) return;
  }
  // If it cannot be deleted now, its orphan row has the next mount do it.
  if (impl_->read_only || !impl_->journal->admit().ok()) return;
  const InodeLocks lock(impl_->inodes, {ino}, Mode::kExclusive);
  Inode* inode = impl_->inodes.find(ino);
  if (inode != nullptr && inode->nlink == 0 && inode->references.load() == 0) impl_->delete_inode(*inode);
}

Status Filesystem::hold(Ino ino) {
  const InodeLocks lock(impl_->inodes, {ino}, Mode::kShared);
  TRY(impl_->find_inode(ino))->references.fetch_add(1);
  return {};
}

std::vector<Ino> Filesystem::referenced_from(Ino from) const {
  constexpr size_t kNumbersAtOnce = 65536;
  std::vector<Ino> referenced;
  for (std::vector<Ino> numbers;
       referenced.empty() && !(numbers = impl_->inodes.numbers_from(from, kNumbersAtOnce)).empty();) {
    for (const Ino ino : numbers) {
      const InodeLocks lock(impl_->inodes, {ino}, Mode::kShared);
      const Inode* const inode = impl_->inodes.find(ino);
      if (inode != nullptr && (ino == kRootIno || inode->references.load() > 0)) referenced.push_back(ino);
    }
    from = Ino{raw(numbers.back()) + 1};
  }
  return referenced;
}

std::vector<Filesystem::Referenced> Filesystem::referenced() const {
  std::vector<Referenced> referenced;
  Ino from = kRootIno;
  for (std::vector<Ino> some; !(some = referenced_from(from)).empty(); from = Ino{raw(some.back()) + 1}) {
    for (const Ino ino : some) {
      const InodeLocks lock(impl_->inodes, {ino}, Mode::kShared);
      const Inode* const inode = impl_->inodes.find(ino);
      if (inode != nullptr && inode->references.load() > 0)
        referenced.push_back({ino, inode->references.load(), S_ISREG(inode->mode)});
    }
  }
  return referenced;
}

Result<Attributes> Filesystem::create(Ino directory, std::string_view name, uint32_t mode, const Caller& caller,
                                      const OperationContext& context) {
  return impl_->make(directory, name, {.mode = S_IFREG | (mode & kModeBits)}, caller, context);
}

Result<Attributes> Filesystem::make_directory(Ino directory, std::string_view name, uint32_t mode, const Caller& caller,
                                              const OperationContext& context) {
  return impl_->make(directory, name, {.mode = S_IFDIR | (mode & kModeBits)}, caller, context);
}

Result<Attributes> Filesystem::make_node(Ino directory, std::string_view name, uint32_t mode, uint32_t rdev,
                                         const Caller& caller, const OperationContext& context) {
  const uint32_t type = mode & S_IFMT;
  if (type != S_IFREG && type != S_IFCHR && type != S_IFBLK && type != S_IFIFO && type != S_IFSOCK) {
    return Error(EINVAL, "not a type of file that mknod makes");
  }
  return impl_->make(directory, name, {.mode = type | (mode & kModeBits), .rdev = rdev}, caller, context);
}

Result<Attributes> Filesystem::make_symlink(Ino directory, std::string_view name, std::string_view target,
                                            const Caller& caller, const OperationContext& context) {
  if (target.empty()) return Error(ENOENT, "the target is empty");
  if (target.size() > limits::kSymlinkBytes) return Error(ENAMETOOLONG, "the target is too long");
  if (target.find('\0') != target.npos) return Error(EINVAL, "the target has a zero byte");
  return impl_->make(directory, name, {.mode = S_IFLNK | 0777, .symlink_target = target}, caller, context);
}

Result<Attributes> Filesystem::make_temporary(Ino directory, uint32_t mode, const Caller& whose,
                                              const OperationContext& context) {
  TRY(impl_->admit_growth(context));
  const Caller caller = TRY(impl_->ask_group_of_new(directory, S_IFREG | mode, whose));
  const Ino number = TRY(impl_->inodes.new_number());
  const InodeLocks locks(impl_->inodes, {directory, number}, Mode::kExclusive);
  const Inode& parent = *TRY(impl_->find_live_directory(directory));
  Inode& inode = *impl_->inodes.insert(TRY(make_inode(number, parent, {.mode = S_IFREG | (mode & kModeBits)}, caller)));
  inode.references = 1;
  inode.orphan = true;
  inode.linkable = true;
  Transaction transaction;
  impl_->put_new_inode(transaction, inode);
  transaction.put_orphan(number);
  impl_->append(transaction, context, {.first = raw(number)});
  return impl_->attributes_of(inode, context);
}

Result<Attributes> Filesystem::link(Ino ino, Ino directory, std::string_view name, const OperationContext& context) {
  TRY(check_new_name(name));
  TRY(impl_->admit_growth(context));
  const InodeLocks locks(impl_->inodes, {ino, directory}, Mode::kExclusive);
  Inode& parent = *TRY(impl_->find_live_directory(directory));
  if (parent.directory->find(name)) return Error(EEXIST, "the name is there already");
  TRY(check_room_for_name(parent));
  Inode* inode = impl_->inodes.find(ino);
  if (inode == nullptr) return Error(ENOENT, "the file has been deleted");
  if (inode->is_directory()) return Error(EPERM, "no hard links to directories");
  if (inode->nlink == 0 && !inode->linkable) return Error(ENOENT, "the file has been deleted");
  if (inode->nlink >= limits::kLinksPerInode) return Error(EMLINK, "too many links to one file");

  Transaction transaction;
  if (inode->orphan) transaction.erase_orphan(ino);
  inode->orphan = inode->linkable = false;
  ++inode->nlink;
  inode->ctime = now();
  inode->references.fetch_add(1);
  impl_->put_inode(transaction, *inode);
  impl_->add_name(transaction, parent, name, *inode, inode->ctime);
  impl_->put_inode(transaction, parent);
  impl_->append(transaction, context);
  return impl_->attributes_of(*inode, context);
}

Status Filesystem::unlink(Ino directory, std::string_view name, const OperationContext& context) {
  if (name.size() > limits::kNameBytes) return Error(ENAMETOOLONG, "the name is too long");
  TRY(impl_->admit_change(context));
  std::optional<InodeLocks> locks;
  Inode& inode = *TRY(impl_->lock_entry(locks, directory, name, Mode::kExclusive));
  if (inode.is_directory()) return Error(EISDIR, "a directory");
  Inode& parent = *TRY(impl_->find_directory(directory));

  const TimeNs time = now();
  Transaction transaction;
  impl_->remove_name(transaction, parent, name, time);
  impl_->put_inode(transaction, parent);
  const bool gone = impl_->remove_link(transaction, inode, time);
  const Lsn lsn = impl_->append(transaction, context);
  if (gone) impl_->drop_inode(inode, lsn);
  return {};
}

Status Filesystem::remove_directory(Ino directory, std::string_view name, const OperationContext& context) {
  if (name.size() > limits::kNameBytes) return Error(ENAMETOOLONG, "the name is too long");
  TRY(impl_->admit_change(context));
  std::optional<InodeLocks> locks;
  Inode& inode = *TRY(impl_->lock_entry(locks, directory, name, Mode::kExclusive));
  if (!inode.is_directory()) return Error(ENOTDIR, "not a directory");
  if (!inode.directory->empty()) return Error(ENOTEMPTY, "the directory is not empty");
  Inode& parent = *TRY(impl_->find_directory(directory));

  const TimeNs time = now();
  Transaction transaction;
  impl_->remove_name(transaction, parent, name, time);
  --parent.nlink;
  impl_->put_inode(transaction, parent);
  const bool gone = impl_->remove_link(transaction, inode, time);
  const Lsn lsn = impl_->append(transaction, context);
  if (gone) impl_->drop_inode(inode, lsn);
  return {};
}

}  // namespace brickfs
