// SPDX-License-Identifier: Apache-2.0
// rename(2) with RENAME_NOREPLACE, RENAME_EXCHANGE and RENAME_WHITEOUT. The errors come in the order in which Linux has
// them.
#include "fs/base/names.h"
#include "fs/operations/filesystem_state.h"
#include "fs/operations/new_inode.h"
#include "transport/brick/limits.h"

namespace brickfs {

using Mode = InodeLocks::Mode;

// Two names, and what they meant when the directories were last locked.
struct Move {
  Ino directory{};
  std::string_view name;
  Ino new_directory{};
  std::string_view new_name;
  Rename how = Rename::kReplace;
  OperationContext context = {};
  Ino moved{};
  Ino target{};  // kNoIno: the new name is free

  bool is_between_directories() const { return directory != new_directory; }
};

// The inodes of a move, locked. Both directories may be one.
struct MoveInodes {
  Inode& from;
  Inode& to;
  Inode& moved;
  Inode* target;
};

namespace {

bool is_directory(const Inode* inode) { return inode != nullptr && inode->is_directory(); }

Status check_types(const Move& move, const MoveInodes& at) {
  if (at.target != nullptr && move.how != Rename::kExchange) {
    if (at.moved.is_directory() && !at.target->is_directory()) return Error(ENOTDIR, "not a directory");
    if (!at.moved.is_directory() && at.target->is_directory()) return Error(EISDIR, "a directory");
    if (at.target->is_directory() && !at.target->directory->empty())
      return Error(ENOTEMPTY, "the directory is not empty");
  }
  if (!move.is_between_directories() || at.moved.is_directory() == is_directory(at.target)) return {};
  const bool exchanges = move.how == Rename::kExchange;
  if ((at.moved.is_directory() && at.to.nlink >= limits::kLinksPerInode) ||
      (exchanges && is_directory(at.target) && at.from.nlink >= limits::kLinksPerInode)) {
    return Error(EMLINK, "too many directories in one");
  }
  return {};
}

// The name comes to mean `inode` in place of something else, and keeps its cookie.
void repoint(Transaction& transaction, Inode& directory, std::string_view name, const Inode& inode, TimeNs time) {
  const uint8_t type = inode.dirent_type();
  directory.directory->replace(name, inode.ino, type);
  transaction.put(DirentRow{directory.ino, name, inode.ino, type, directory.directory->find(name)->cookie});
  directory.mtime = directory.ctime = time;
}

void change_parent(Inode& inode, Inode& from, Inode& to) {
  if (!inode.is_directory()) return;
  inode.parent = to.ino;
  --from.nlink;
  ++to.nlink;
}

}  // namespace

// What the names mean now. Under the locks of both directories.
Status Filesystem::Impl::look_up(Move& move) {
  const Inode& from = *TRY(find_directory(move.directory));
  const Inode& to = *TRY(find_directory(move.new_directory));
  const auto source = from.directory->find(move.name);
  if (!source) return Error(ENOENT, "no such name");
  const auto target = to.directory->find(move.new_name);
  if (target && move.how == Rename::kNoReplace) return Error(EEXIST, "the new name is there already");
  if (!target && move.how == Rename::kExchange) return Error(ENOENT, "no such name to exchange with");
  if (to.nlink == 0) return Error(ENOENT, "the directory has been removed");
  move.moved = source->ino;
  move.target = target ? target->ino : kNoIno;
  return {};
}

// Under rename_mutex, which keeps all directories where they are (but not from being removed, which their own locks
// tell).
bool Filesystem::Impl::is_within(Ino directory, Ino ancestor) {
  while (directory != ancestor) {
    const auto parent = parent_of(directory);
    if (!parent.ok() || *parent == directory || *parent == kNoIno) return false;
    directory = *parent;
  }
  return true;
}

Status Filesystem::Impl::check_ancestors(const Move& move) {
  if (!move.is_between_directories()) return {};
  if (is_within(move.new_directory, move.moved)) return Error(EINVAL, "a directory cannot move into itself");
  if (move.target == kNoIno || !is_within(move.directory, move.target)) return {};
  if (move.how == Rename::kExchange) return Error(EINVAL, "a directory cannot move into itself");
  return Error(ENOTEMPTY, "the directory is not empty");
}

// The name comes to mean a device file that says to overlayfs: there is nothing here, whatever lies below.
void Filesystem::Impl::leave_whiteout(Transaction& transaction, const Move& move, Inode& directory,
                                      std::unique_ptr<Inode> whiteout) {
  Inode& inode = *inodes.insert(std::move(whiteout));
  inode.nlink = 1;
  put_new_inode(transaction, inode);
  repoint(transaction, directory, move.name, inode, inode.ctime);
}

void Filesystem::Impl::move_name(const Move& move, const MoveInodes& at, std::unique_ptr<Inode> whiteout) {
  const TimeNs time = now();
  Transaction transaction;
  if (whiteout != nullptr) {
    leave_whiteout(transaction, move, at.from, std::move(whiteout));
  } else {
    remove_name(transaction, at.from, move.name, time);
  }
  bool gone = false;
  if (at.target != nullptr) {
    repoint(transaction, at.to, move.new_name, at.moved, time);
    if (at.target->is_directory()) --at.to.nlink;
    gone = remove_link(transaction, *at.target, time);
  } else {
    add_name(transaction, at.to, move.new_name, at.moved, time);
  }
  change_parent(at.moved, at.from, at.to);
  at.moved.ctime = time;
  put_inode(transaction, at.moved);
  put_inode(transaction, at.from);
  if (move.is_between_directories()) put_inode(transaction, at.to);
  const Lsn lsn = append(transaction, move.context, {.first = raw(move.moved)});
  if (gone) drop_inode(*at.target, lsn);
}

void Filesystem::Impl::exchange_names(const Move& move, const MoveInodes& at) {
  const TimeNs time = now();
  Transaction transaction;
  repoint(transaction, at.from, move.name, *at.target, time);
  repoint(transaction, at.to, move.new_name, at.moved, time);
  change_parent(at.moved, at.from, at.to);
  change_parent(*at.target, at.to, at.from);
  at.moved.ctime = at.target->ctime = time;
  put_inode(transaction, at.moved);
  put_inode(transaction, *at.target);
  put_inode(transaction, at.from);
  if (move.is_between_directories()) put_inode(transaction, at.to);
  append(transaction, move.context, {.first = raw(move.moved), .second = raw(move.target)});
}

Result<Renamed> Filesystem::rename(Ino directory, std::string_view name, Ino new_directory, std::string_view new_name,
                                   Rename how, const Caller* whiteout, const OperationContext& context) {
  TRY(check_new_name(new_name));
  if (name.size() > limits::kNameBytes) return Error(ENAMETOOLONG, "the name is too long");
  TRY(whiteout != nullptr ? impl_->admit_growth(context) : impl_->admit_change(context));
  const Ino whiteout_number = whiteout != nullptr ? TRY(impl_->inodes.new_number()) : kNoIno;
  Move move{.directory = directory,
            .name = name,
            .new_directory = new_directory,
            .new_name = new_name,
            .how = how,
            .context = context};
  std::optional<MutexLock> one_at_a_time;
  if (move.is_between_directories()) one_at_a_time.emplace(impl_->rename_mutex);
  for (;;) {
    {
      const InodeLocks locks(impl_->inodes, {directory, new_directory}, Mode::kShared);
      TRY(impl_->look_up(move));
    }
    TRY(impl_->check_ancestors(move));
    const InodeLocks locks(impl_->inodes, {directory, new_directory, move.moved, move.target, whiteout_number},
                           Mode::kExclusive);
    const Move before = move;
    TRY(impl_->look_up(move));
    if (move.moved != before.moved || move.target != before.target) continue;
    if (move.moved == move.target) return Renamed{};  // two links to one file: nothing to do, says POSIX

    Inode* target = move.target == kNoIno ? nullptr : TRY(impl_->find_entry_inode(move.target));
    const MoveInodes at{*impl_->inodes.find(directory), *impl_->inodes.find(new_directory),
                        *TRY(impl_->find_entry_inode(move.moved)), target};
    TRY(check_types(move, at));
    if (target == nullptr) TRY(check_room_for_name(at.to));
    if (how == Rename::kExchange) {
      impl_->exchange_names(move, at);
      return Renamed{.moved = move.moved, .exchanged = move.target};
    }
    std::unique_ptr<Inode> left;
    if (whiteout != nullptr) left = TRY(make_inode(whiteout_number, at.from, {.mode = S_IFCHR}, *whiteout));
    impl_->move_name(move, at, std::move(left));
    return Renamed{.moved = move.moved};
  }
}

}  // namespace brickfs
