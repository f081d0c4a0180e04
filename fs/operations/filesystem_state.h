// SPDX-License-Identifier: Apache-2.0
// What a mounted file system consists of; each group of operations (namespace_ops, attribute_ops, file_ops ...) is a
// set of members of Filesystem::Impl, in a source file of its own.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>

#include "fs/base/clock.h"
#include "fs/base/range_lock.h"
#include "fs/base/slices.h"
#include "fs/inode/inode_table.h"
#include "fs/inode/member_register.h"
#include "fs/operations/deferred_truncations.h"
#include "fs/operations/filesystem.h"
#include "fs/operations/lock_table.h"
#include "fs/persistence/journal.h"
#include "fs/persistence/read_times.h"
#include "fs/space/space.h"
#include "transport/base/mutex.h"

namespace brickfs {

class CheckpointThread;  // fs/persistence/checkpoint_thread.h
struct NewInode;         // fs/operations/new_inode.h
struct Move;             // fs/operations/rename_op.cc
struct MoveInodes;

// What a member is answered of its call, as far as that does not tell it (docs/format.md, "Rows").
struct Answered {
  uint64_t first = 0;
  uint64_t second = 0;
};

class Filesystem::Impl {
 public:
  ~Impl();

  // Synchronised by themselves. Destroyed in reverse order: the checkpoint thread first, the volume last.
  std::unique_ptr<VolumeSet> volume;
  std::unique_ptr<Space> space;      // null on a read-only mount
  std::unique_ptr<Journal> journal;  // null on a read-only mount
  InodeTable inodes;
  RangeLocks ranges;
  LockTable locks{[this] { return volume->final_error(); }};  // that programs set
  MemberRegister members;
  DeferredTruncations truncations;
  ReadTimes read_times;
  std::unique_ptr<CheckpointThread> checkpoints;  // null on a read-only mount

  // Fixed after mount.
  MountOptions options;
  std::string uuid;
  Lsn found_through{};         // the last transaction then
  bool was_unmounted = false;  // as the mark said then
  bool read_only = false;
  std::string why_read_only;                    // though it was not asked for; for people
  std::atomic<bool> told_metadata_full{false};  // said in the log since there was room again
  std::function<bool()> may_touch;              // Filesystem::ask_before_touching
  SpaceUsage read_only_usage;                   // of a read-only mount, which has no `space`

  // Unlinked files that the mount found, and that members may hold.
  Mutex unclaimed_mutex;
  std::vector<Ino> unclaimed ABSL_GUARDED_BY(unclaimed_mutex);

  // Taken before any inode lock by a rename that moves a directory to another parent: keeps ancestors in place.
  Mutex rename_mutex;

  // Of an unmount: all that was changed is durable, and the volume tidied up.
  Status end_changes();

  // EROFS, or the journal's error; else waits for room in the journal. The first thing every change does.
  Status admit_change(const OperationContext& context);
  // The same for changes that leave more metadata behind than there was; ENOSPC on a full volume, and where metadata
  // takes as much memory as it may (MountOptions::max_metadata_bytes).
  Status admit_growth(const OperationContext& context);
  Status check_metadata_memory();  // the last part of it
  // The last transaction of an operation, and what that is answered.
  Lsn append(Transaction& transaction, const OperationContext& context, Answered answered = {});

  // Under the inode's lock. ESTALE: there is none of that number. ENOTDIR.
  Result<Inode*> find_inode(Ino ino) const;
  Result<Inode*> find_directory(Ino ino) const;
  Result<Inode*> find_live_directory(Ino ino) const;  // ENOENT too: it has been removed
  Result<Inode*> find_entry_inode(Ino ino) const;     // that a name means: EIO if there is none
  Result<Ino> parent_of(Ino directory);               // without locks
  // Locks a directory and the inode that a name in it means. ENOENT (with the directory locked): there is no such name.
  Result<Inode*> lock_entry(std::optional<InodeLocks>& locks, Ino directory, std::string_view name,
                            InodeLocks::Mode mode);

  // The caller, who has been asked whether he is in the inode's group: what asking him takes (a look into /proc) is
  // done without locks. Of another group, which it may have got by when it is locked, he says no: a set-group-id bit is
  // lost then.
  Result<Caller> ask_group(Ino ino, const Caller& caller);
  // The same if it matters to a new inode of that mode in a directory.
  Result<Caller> ask_group_of_new(Ino directory, uint32_t mode, const Caller& caller);

  // One more kernel reference to the inode. Without locks.
  Result<Attributes> lookup_number(Ino ino, const OperationContext& context);
  // A new inode under a new name. Without locks.
  Result<Attributes> make(Ino directory, std::string_view name, const NewInode& what, const Caller& caller,
                          const OperationContext& context);

  // Down to set_size(): under exclusive locks of all inodes concerned.
  // The inode's row goes into `transaction`.
  void put_inode(Transaction& transaction, Inode& inode);
  void put_new_inode(Transaction& transaction, Inode& inode);  // with its xattrs
  // These two stamp the directory; the caller puts it.
  void add_name(Transaction& transaction, Inode& directory, std::string_view name, const Inode& inode, TimeNs time);
  void remove_name(Transaction& transaction, Inode& directory, std::string_view name, TimeNs time);
  // Takes away a link, or a directory's last two. Without links the inode becomes an orphan if it is referenced; if
  // not, its rows go and true is returned: the caller calls drop_inode() behind the append. ctime is stamped.
  [[nodiscard]] bool remove_link(Transaction& transaction, Inode& inode, TimeNs time);
  // Frees the space and memory of an inode whose rows the transaction with that LSN has erased. The pointer dies.
  void drop_inode(Inode& inode, Lsn erased_by);
  // Deletes an inode that has no link and no reference, in a transaction of its own. The pointer dies.
  void delete_inode(Inode& inode);
  // What an unprivileged write or truncation, and any chown, takes away: set-uid, set-gid where the group may execute
  // or the caller is not in it, and file capabilities. Not of directories. The caller puts the inode.
  void kill_privileges(Transaction& transaction, Inode& inode, const Caller& caller);
  // Any change of data takes away file capabilities. True if there were any.
  bool drop_capabilities(Transaction& transaction, Inode& inode);
  // Truncates or extends a regular file in one transaction, with its own locks (data in file_ops). `edit` (may be
  // empty) changes more of the inode in it, behind the stamping of mtime and ctime and before the row is put. EINVAL,
  // EFBIG, ENOSPC.
  using InodeEdit = std::function<void(Transaction& transaction, Inode& inode)>;
  Status set_size(Ino ino, uint64_t size_bytes, const InodeEdit& edit, const OperationContext& context);
  class FileRead;    // fs/operations/file_read.h
  class FileChange;  // fs/operations/file_change.h
  class JointTransfer;
  // Parts of write, allocate and copy_range, on a range that is locked.
  Status write_range(FileChange& change, std::span<const LocalSlice> from, const Caller* unprivileged, bool mapped);
  // A write whose bytes others move: where they go. False: they do not all replace bytes that are there.
  bool plan_overwrite(FileChange& change, std::span<const LocalSlice> from, PieceList& pieces);
  Status record_overwrite(FileChange& change, bool mapped);
  Status apply_layout(FileChange& change, uint64_t gap_end, bool keep_size, const Caller* unprivileged);
  Status preallocate(FileChange& change, bool keep_size, const Caller* unprivileged);
  Status punch_hole(FileChange& change, bool keep_size, const Caller* unprivileged);
  Status zero_range(FileChange& change, bool keep_size, const Caller* unprivileged);
  Status copy_hole(Ino to, uint64_t offset, uint64_t length, const Caller* unprivileged,
                   const OperationContext& context);

  // Parts of rename, all under rename_mutex where two directories are concerned: fs/operations/rename_op.cc.
  Status look_up(Move& move);
  bool is_within(Ino directory, Ino ancestor);
  Status check_ancestors(const Move& move);
  void move_name(const Move& move, const MoveInodes& at, std::unique_ptr<Inode> whiteout);
  void leave_whiteout(Transaction& transaction, const Move& move, Inode& directory, std::unique_ptr<Inode> whiteout);
  void exchange_names(const Move& move, const MoveInodes& at);

  // Parts of read_directory and set_attributes.
  Status visit_names(Ino ino, uint64_t offset, const EntryVisitor& visitor);
  Status visit_inodes(Ino ino, uint64_t offset, const EntryVisitor& visitor, const OperationContext& context);
  void change_inode(Transaction& transaction, Inode& inode, const AttributeChange& change, const Caller& caller);

  // Without locks: the inode was read just now (relatime; its row goes along later: ReadTimes).
  void touch_atime(Ino ino);
  // Without locks: a newer time of reading is journalled, if there is one.
  Status journal_read_time(Ino ino, const OperationContext& context);
  void add_places(FileLayout& layout) const;
  bool is_atime_due(const Inode& inode) const;  // under its lock, shared or not: else that does nothing
  // For an answer. Under its lock, shared or not.
  Attributes attributes_of(const Inode& inode, const OperationContext& context) const;
};

Status check_room_for_name(const Inode& directory);  // a new one, under its lock: ENOSPC

// Whoever is told, as Inode::told_to has it.
uint32_t told_to(const OperationContext& context);

}  // namespace brickfs
