// SPDX-License-Identifier: Apache-2.0
// What all groups of operations share.
#include "fs/operations/filesystem_state.h"

#include "fs/operations/new_inode.h"
#include "transport/base/log.h"
#include "transport/base/size.h"

namespace brickfs {
namespace {

constexpr uint64_t kDirectoryBytes = 4096;  // what stat shows; the entries are in memory
constexpr std::string_view kCapabilities = "security.capability";

}  // namespace

uint32_t told_to(const OperationContext& context) { return context.thread == 0 ? Inode::kSeveral : context.thread; }

Status Filesystem::Impl::admit_change(const OperationContext& context) {
  if (read_only) return Error(EROFS, "the file system is mounted read-only");
  return journal->admit(context.interruption);
}

Status Filesystem::Impl::admit_growth(const OperationContext& context) {
  TRY(admit_change(context));
  if (space->usage().free_units == 0) return Error(ENOSPC, "the volume is full");
  return check_metadata_memory();
}

Status Filesystem::Impl::check_metadata_memory() {
  const uint64_t most = options.max_metadata_bytes;
  const uint64_t taken = inodes.memory_bytes();
  if (most == 0 || taken < most) {
    if (told_metadata_full && taken < most - most / 16) told_metadata_full = false;
    return {};
  }
  if (!told_metadata_full.exchange(true)) {
    log::warn(
        "metadata takes {} of memory, as much as max_metadata= allows: new names get ENOSPC until some are removed",
        format_size(taken / kMiB * kMiB));
  }
  return Error(ENOSPC, "metadata takes as much memory as it may");
}

Lsn Filesystem::Impl::append(Transaction& transaction, const OperationContext& context, Answered answered) {
  if (context.call.number == 0) return journal->append(transaction, context.wake_later);
  const ReplyRow row{.session = context.machine,
                     .slot = context.call.slot,
                     .number = context.call.number,
                     .first = answered.first,
                     .second = answered.second};
  return members.reply(row, transaction,
                       [&](Transaction& whole) { return journal->append(whole, context.wake_later); });
}

Result<Inode*> Filesystem::Impl::find_inode(Ino ino) const {
  Inode* inode = inodes.find(ino);
  if (inode == nullptr) return Error(ESTALE, "no such inode");
  return inode;
}

Result<Inode*> Filesystem::Impl::find_directory(Ino ino) const {
  Inode* inode = TRY(find_inode(ino));
  if (!inode->is_directory()) return Error(ENOTDIR, "not a directory");
  return inode;
}

Result<Inode*> Filesystem::Impl::find_live_directory(Ino ino) const {
  Inode* directory = TRY(find_directory(ino));
  if (directory->nlink == 0) return Error(ENOENT, "the directory has been removed");
  return directory;
}

Result<Inode*> Filesystem::Impl::find_entry_inode(Ino ino) const {
  Inode* inode = inodes.find(ino);
  if (inode == nullptr) return Error(EIO, "a name means an inode that is not there");
  return inode;
}

Result<Ino> Filesystem::Impl::parent_of(Ino directory) {
  const InodeLocks lock(inodes, {directory}, InodeLocks::Mode::kShared);
  return TRY(find_directory(directory))->parent;
}

Result<Inode*> Filesystem::Impl::lock_entry(std::optional<InodeLocks>& locks, Ino directory, std::string_view name,
                                            InodeLocks::Mode mode) {
  Ino child = kNoIno;
  for (;;) {
    locks.reset();
    locks.emplace(inodes, std::initializer_list<Ino>{directory, child}, mode);
    const Inode* parent = TRY(find_directory(directory));
    const auto entry = parent->directory->find(name);
    if (!entry) return Error(ENOENT, "no such name");
    if (entry->ino == child) return find_entry_inode(child);
    child = entry->ino;
  }
}

Result<Attributes> Filesystem::Impl::lookup_number(Ino ino, const OperationContext& context) {
  const InodeLocks lock(inodes, {ino}, InodeLocks::Mode::kShared);
  Inode& inode = *TRY(find_inode(ino));
  inode.references.fetch_add(1);
  return attributes_of(inode, context);
}

void Filesystem::Impl::put_inode(Transaction& transaction, Inode& inode) {
  transaction.put(inode.row());
  inodes.count_memory(inode);
}

bool Filesystem::Impl::remove_link(Transaction& transaction, Inode& inode, TimeNs time) {
  // A damaged volume may have more names for a file than links.
  inode.nlink = inode.is_directory() || inode.nlink == 0 ? 0 : inode.nlink - 1;
  inode.ctime = time;
  if (inode.nlink == 0 && inode.references.load() == 0) {
    transaction.erase_inode(inode.ino);
    return true;
  }
  put_inode(transaction, inode);
  if (inode.nlink == 0) {
    inode.orphan = true;
    transaction.put_orphan(inode.ino);
  }
  return false;
}

void Filesystem::Impl::drop_inode(Inode& inode, Lsn erased_by) {
  if (inode.extents) {
    std::vector<UnitRun> runs;
    inode.extents->unmap(0, UINT64_MAX, &runs);
    for (const UnitRun& run : runs) space->release(run, erased_by);
  }
  inodes.erase(inode.ino);
}

void Filesystem::Impl::delete_inode(Inode& inode) {
  Transaction transaction;
  transaction.erase_inode(inode.ino);
  drop_inode(inode, journal->append(transaction));
}

// As setattr_should_drop_suidgid() of Linux.
void Filesystem::Impl::kill_privileges(Transaction& transaction, Inode& inode, const Caller& caller) {
  if (inode.is_directory()) return;
  inode.mode &= ~uint32_t{S_ISUID};
  if ((inode.mode & S_ISGID) != 0 && ((inode.mode & S_IXGRP) != 0 || !is_in_group(caller, inode.gid))) {
    inode.mode &= ~uint32_t{S_ISGID};
  }
  (void)drop_capabilities(transaction, inode);
}

bool Filesystem::Impl::drop_capabilities(Transaction& transaction, Inode& inode) {
  if (!inode.xattrs) return false;
  const auto capabilities = inode.xattrs->find(kCapabilities);
  if (capabilities == inode.xattrs->end()) return false;
  transaction.erase_xattr(inode.ino, kCapabilities);
  inode.xattrs->erase(capabilities);
  if (inode.xattrs->empty()) inode.xattrs.reset();
  return true;
}

bool Filesystem::Impl::is_atime_due(const Inode& inode) const {
  if (read_only || options.no_atime) return false;
  return is_relatime_due(inode.atime, inode.mtime, inode.ctime, now());
}

void Filesystem::Impl::touch_atime(Ino ino) {
  {
    const InodeLocks lock(inodes, {ino}, InodeLocks::Mode::kShared);
    const Inode* inode = inodes.find(ino);
    if (inode == nullptr || !is_atime_due(*inode)) return;
  }
  if (may_touch && !may_touch()) return;
  const TimeNs time = now();
  const InodeLocks lock(inodes, {ino}, InodeLocks::Mode::kExclusive);
  Inode* const inode = inodes.find(ino);
  if (inode == nullptr) return;
  inode->atime = time;
  read_times.add(ino);
}

Status Filesystem::Impl::journal_read_time(Ino ino, const OperationContext& context) {
  if (!read_times.take(ino)) return {};
  if (const Status admitted = admit_change(context); !admitted.ok()) {
    read_times.add(ino);
    return admitted;
  }
  const InodeLocks lock(inodes, {ino}, InodeLocks::Mode::kExclusive);
  Inode* const inode = inodes.find(ino);
  if (inode == nullptr) return {};
  Transaction transaction;
  put_inode(transaction, *inode);
  journal->append(transaction, context.wake_later);
  return {};
}

Attributes Filesystem::Impl::attributes_of(const Inode& inode, const OperationContext& context) const {
  const uint32_t whom = told_to(context);
  uint32_t before = Inode::kNobody;
  if (!inode.told_to.compare_exchange_strong(before, whom) && before != whom) inode.told_to = Inode::kSeveral;
  Attributes attributes;
  attributes.ino = inode.ino;
  attributes.mode = inode.mode;
  attributes.nlink = inode.nlink;
  attributes.uid = inode.uid;
  attributes.gid = inode.gid;
  attributes.rdev = inode.rdev;
  attributes.size_bytes = inode.is_directory() ? kDirectoryBytes : inode.size_bytes;
  attributes.blocks_512 = inode.extents ? inode.extents->mapped_units() * (kUnitBytes / 512) : 0;
  attributes.atime = inode.atime;
  attributes.mtime = inode.mtime;
  attributes.ctime = inode.ctime;
  attributes.btime = inode.btime;
  return attributes;
}

}  // namespace brickfs
