// SPDX-License-Identifier: Apache-2.0
// A mounted brickfs without FUSE: every operation a regular file system has, by inode number. Permission bits are
// checked by the kernel (default_permissions); what only the file system can know is checked here.
//
// Each operation answers with the errno POSIX and Linux give. Operations that change anything answer EROFS on a
// read-only mount or after the journal has failed (then EIO where data was lost).
//
// Threads: every call from any thread at once. Locks: docs/architecture.md, "Lock order".
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fs/base/ids.h"
#include "fs/inode/cached_regions.h"
#include "fs/persistence/journal.h"
#include "transport/base/interruption.h"
#include "transport/base/progress.h"
#include "transport/base/result.h"
#include "transport/volume/volume_set.h"

namespace brickfs {

// Who asks.
struct Caller {
  uint32_t uid = 0;
  uint32_t gid = 0;
  uint32_t umask = 0;
  // True if the caller is in group `gid` (supplementary ones too) or may act as if (CAP_FSETID).
  std::function<bool(uint32_t gid)> in_group;
  // True if the caller has CAP_SYS_ADMIN; empty: it has not.
  std::function<bool()> is_administrator;
};

// For whom an operation is done: an argument of each that waits, changes anything or tells attributes. The default: for
// nobody who waits.
struct OperationContext {
  // Of an application, which waits for each of its answers; numbered as by gettid(2). 0: not known.
  uint32_t thread = 0;
  // The operation ends with EINTR soon after it was raised, if it waits then. Outlives the operation. Null: none.
  const Interruption* interruption = nullptr;
  // Of Filesystem::answer_first(). Null: whoever changes something wakes the journal's writer at once.
  Journal::WakeLater* wake_later = nullptr;
};

struct Attributes {
  Ino ino{};
  uint32_t mode = 0;
  uint32_t nlink = 0;
  uint32_t uid = 0;
  uint32_t gid = 0;
  uint32_t rdev = 0;  // as Linux encodes it
  uint64_t size_bytes = 0;
  uint64_t blocks_512 = 0;  // st_blocks
  TimeNs atime{};
  TimeNs mtime{};
  TimeNs ctime{};
  TimeNs btime{};
};

// What setattr changes: the members that are set.
struct AttributeChange {
  std::optional<uint32_t> mode = {};
  std::optional<uint32_t> uid = {};
  std::optional<uint32_t> gid = {};
  std::optional<uint64_t> size_bytes = {};
  std::optional<TimeNs> atime = {};
  std::optional<TimeNs> mtime = {};
  std::optional<TimeNs> ctime = {};
  bool kill_privileges =
      false;  // clear set-uid/-gid as a write by a not privileged caller does; a new owner does so anyway
  bool kill_if_owner = false;  // the same if the caller owns the file, and is not root
};

struct DirectoryEntry {
  std::string_view name;  // valid during the callback
  Ino ino{};
  uint8_t type = 0;          // DT_*
  uint64_t next_offset = 0;  // where to go on behind this entry
  const Attributes* attributes =
      nullptr;  // with readdirplus; null for "." and "..", and where a damaged volume has none
};
// False: no room, stop before this entry. Runs under inode locks: must not call the file system.
using EntryVisitor = std::function<bool(const DirectoryEntry&)>;

// What reading does to what is read.
enum class Touch { kAtime, kNothing };

enum class Rename : uint32_t { kReplace = 0, kNoReplace = 1, kExchange = 2 };

// What was stamped: that to which the name belonged, and what it was exchanged with. kNoIno: nothing.
struct Renamed {
  Ino moved = kNoIno;
  Ino exchanged = kNoIno;
};

struct FilesystemStat {
  uint64_t unit_bytes = kUnitBytes;
  uint64_t total_units = 0;
  uint64_t free_units = 0;
  uint64_t inodes = 0;  // in use
  uint64_t free_inodes = 0;
  uint64_t metadata_bytes = 0;  // of memory, that inodes and names take
};

// What was answered for and a crash of the brick would undo.
struct Uncommitted {
  uint64_t operations = 0;  // transactions of the journal; 0: nothing would be lost
  uint64_t bytes = 0;       // of data and journal, where they are kept for replay
  uint64_t committed = 0;   // transactions that a crash of the brick does not undo, since the file system was made
};

// What holds the metadata on the brick.
struct PersistenceStat {
  uint64_t journal_bytes = 0;
  uint64_t checkpoint_bytes = 0;
  std::optional<std::chrono::nanoseconds> checkpoint_age;  // none: it is a former mount's
  std::chrono::nanoseconds checkpoint_took{};              // likewise
};

struct MountOptions {
  bool read_only = false;
  bool writeback_cache = false;  // the kernel keeps size and times of files it writes
  bool no_atime = false;
  uint64_t max_metadata_bytes = 0;        // of memory, beyond which no name is added; 0: no bound
  Progress progress = progress_in_log();  // of the recovery
};

class Filesystem {
 public:
  // Recovers (or makes) the file system on the volume and serves it: docs/recovery.md. With damage it is mounted
  // read-only and says so in the log. EUCLEAN: not a brickfs, or beyond reading; ENOTSUP: a newer format. `why` gets
  // one line for people.
  static Result<std::unique_ptr<Filesystem>> mount(std::unique_ptr<VolumeSet> volume, const MountOptions& options,
                                                   std::string* why);
  virtual ~Filesystem();  // without unmount(): as if the process had crashed
  // Everything durable, checkpoint written, lease given up.
  Status unmount();
  const std::string& uuid() const;  // the volume's, as text
  // The last transaction that the mount found, and that is durable now, also after unmount(). Numbers only grow.
  Lsn found_through() const;
  Lsn durable_through() const;
  bool read_only() const;
  // Why it is though it was not asked for, for people; empty: that is not so.
  std::string why_read_only() const;
  // What ails the brick's store (transport/brick/store_trouble.h), as the brick last said; empty: nothing.
  std::string store_trouble() const;
  // As long as what it returns lives, changes with it in their context do not wake the journal's writer: to be held
  // from a request until it has been answered, so that whoever asked does not wait for that.
  [[nodiscard]] Journal::WakeLater answer_first();

  // --- names. Each answer with attributes counts one more kernel reference to the inode, until forget().
  Result<Attributes> lookup(Ino directory, std::string_view name, const OperationContext& context = {});
  void forget(Ino ino, uint64_t references);
  // One more such reference, which nobody was told of: an inode without names stays, and its bytes are nobody else's.
  // ESTALE: there is no such inode.
  Status hold(Ino ino);
  // Inodes with such references, and the root: of a part of the numbers from this one on, ascending; empty: there are
  // none.
  std::vector<Ino> referenced_from(Ino from) const;
  Result<Attributes> create(Ino directory, std::string_view name, uint32_t mode, const Caller& caller,
                            const OperationContext& context = {});  // EEXIST
  Result<Attributes> make_temporary(Ino directory, uint32_t mode, const Caller& caller,
                                    const OperationContext& context = {});  // O_TMPFILE
  Result<Attributes> make_node(Ino directory, std::string_view name, uint32_t mode, uint32_t rdev, const Caller& caller,
                               const OperationContext& context = {});
  Result<Attributes> make_directory(Ino directory, std::string_view name, uint32_t mode, const Caller& caller,
                                    const OperationContext& context = {});
  Result<Attributes> make_symlink(Ino directory, std::string_view name, std::string_view target, const Caller& caller,
                                  const OperationContext& context = {});
  Result<Attributes> link(Ino ino, Ino directory, std::string_view name, const OperationContext& context = {});
  Status unlink(Ino directory, std::string_view name, const OperationContext& context = {});
  Status remove_directory(Ino directory, std::string_view name, const OperationContext& context = {});
  // `whiteout`: who leaves a whiteout (a character device 0:0) where the name was, in the same step; null: nothing
  // stays there. Not with kExchange.
  Result<Renamed> rename(Ino directory, std::string_view name, Ino new_directory, std::string_view new_name, Rename how,
                         const Caller* whiteout = nullptr, const OperationContext& context = {});
  Result<std::string> read_symlink(Ino ino);
  // Entries from `offset` (0: the start) on, "." and ".." first, until the visitor stops it. `plus`: with attributes,
  // and a kernel reference for each entry the visitor took but "." and "..". Only those that were there when somebody
  // last read from the start: a listing ends, though names keep coming.
  Status read_directory(Ino directory, uint64_t offset, bool plus, const EntryVisitor& visitor,
                        Touch touch = Touch::kAtime, const OperationContext& context = {});

  // --- attributes
  Result<Attributes> get_attributes(Ino ino, const OperationContext& context = {});
  // True if attributes of the inode have been in an answer to anybody but the context's thread since this was asked
  // last: one of them may be on its way to the kernel still and be older than a change made just now. What that thread
  // was told has arrived, or it would not ask again.
  bool take_told(Ino ino, const OperationContext& context = {});
  Result<Attributes> set_attributes(Ino ino, const AttributeChange& change, const Caller& caller,
                                    const OperationContext& context = {});
  // Flags as of setxattr(2). Sets the mode with a POSIX access ACL, as Linux does.
  Status set_xattr(Ino ino, std::string_view name, std::span<const std::byte> value, int flags, const Caller& caller,
                   const OperationContext& context = {});
  Result<std::vector<std::byte>> get_xattr(Ino ino, std::string_view name);  // ENODATA
  // Names, each ended by a zero byte. trusted.* is for administrators: here the kernel does not see to that.
  Result<std::vector<std::byte>> list_xattr(Ino ino, const Caller& caller);
  Status remove_xattr(Ino ino, std::string_view name, const OperationContext& context = {});

  // --- data. The kernel's references keep an unlinked file; open and release need no call.
  // Bytes read: less than asked for only at the end of the file. Holes read as zeros. `into`: as many slices as one
  // likes.
  Result<uint64_t> read(Ino ino, uint64_t offset, std::span<const LocalSlice> into, Touch touch = Touch::kAtime,
                        const OperationContext& context = {});
  // Whether reading it would change its time of reading.
  bool is_atime_due(Ino ino) const;
  // All or an error; `append`: at the end of the file, wherever that is now. `unprivileged`: who writes, if that clears
  // the set-uid and set-gid bits; null: they stay. File capabilities are removed by every change of data, unless it was
  // made in mapped memory.
  Result<uint64_t> write(Ino ino, uint64_t offset, std::span<const LocalSlice> from, bool append,
                         const Caller* unprivileged, bool mapped = false, const OperationContext& context = {});
  // As write(), where that changes nothing but bytes of the file and its times. ERANGE: it would make the file longer,
  // or take set-uid and set-gid bits away. Nothing is done then.
  Result<uint64_t> overwrite(Ino ino, uint64_t offset, std::span<const LocalSlice> from,
                             const OperationContext& context = {});
  class JointTransfer;  // several of these at once: fs/operations/joint_transfer.h
  // As fallocate(2); EOPNOTSUPP. `unprivileged`: as of write().
  Status allocate(Ino ino, int mode, uint64_t offset, uint64_t length, const Caller* unprivileged,
                  const OperationContext& context = {});
  // The first hole of a file at or behind a byte; the end is one, too, of no length. What is preallocated is a hole.
  struct Hole {
    uint64_t begin;
    uint64_t end;
    uint64_t size;  // of the file
    // What lseek() from that byte answers: SEEK_DATA, SEEK_HOLE; ENXIO.
    Result<uint64_t> seek(uint64_t offset, int whence) const;
  };
  Result<Hole> next_hole(Ino ino, uint64_t offset);             // ENXIO: at or behind the end
  Result<uint64_t> seek(Ino ino, uint64_t offset, int whence);  // SEEK_DATA, SEEK_HOLE; ENXIO
  Result<uint64_t> copy_range(Ino from, uint64_t from_offset, Ino to, uint64_t to_offset, uint64_t length,
                              const Caller* unprivileged, const OperationContext& context = {});
  // Bytes up to there were written, as far as their writer knows, and got no room when the kernel wrote them back: the
  // file is made so long, with zeros where they should be.
  Status cover_lost(Ino ino, uint64_t end);
  // Everything done before is durable (`ino` as a hint of what matters).
  Status sync(Ino ino, const OperationContext& context = {});
  Status sync_all(const OperationContext& context = {});

  // The page cache of the kernel may hold these bytes of the file from now on: before they are read or written for it.
  void note_cached(Ino ino, uint64_t offset, uint64_t length);
  // Of what was noted anything near these bytes.
  bool is_cached(Ino ino, uint64_t offset, uint64_t length) const;
  // That, to be dropped whole; it is noted no longer.
  std::optional<CachedRegions::Range> take_cached(Ino ino, uint64_t offset, uint64_t length);
  // Asked before a time of reading is noted, if it is due; by any thread. False: it is not noted. Before others use
  // this.
  void ask_before_touching(std::function<bool()> may_touch);

  // The kernel's page cache may hold so many bytes that are not written yet: room is kept for them
  // (fs/space/writeback_reserve.h). `on_short`, which does not wait, has them written, and then this or
  // settle_writeback() called.
  void reserve_for_writeback(uint64_t bytes, std::function<void()> on_short);
  void settle_writeback();
  bool is_short_for_writeback() const;
  // Regular files that the kernel may know, by ascending number from there on; at most so many inodes are looked at.
  struct KnownFiles {
    std::vector<Ino> files;
    std::optional<Ino> next;  // where to go on; none: those were the last
  };
  KnownFiles known_files(Ino from, size_t most) const;

  FilesystemStat stat() const;
  // Waits for nothing; also during unmount() and after it.
  Uncommitted uncommitted() const;
  PersistenceStat persistence() const;
  // Writes a checkpoint now, unless nothing was journalled since the last one; others go on meanwhile. Read-only:
  // nothing.
  Status checkpoint();
  VolumeSet& volume();
  // For VolumeOptions::on_commit_wanted, from any thread while this lives; does not wait.
  void want_commit();

 private:
  class Impl;
  class Mounting;  // fs/operations/mount.cc
  explicit Filesystem(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace brickfs
