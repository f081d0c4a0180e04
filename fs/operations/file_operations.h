// SPDX-License-Identifier: Apache-2.0
// Every operation that a regular file system has, by inode number: what FUSE's requests, queues in shared memory and
// the library call, and all that they call. Filesystem is the implementation for a volume whose tree is in this
// process. Permission bits are checked by who calls (the kernel, with default_permissions); what only the file system
// can know is checked here.
//
// Units: offsets and lengths are bytes, times nanoseconds since 1970, st_blocks 512 bytes; `ino` is one that lookup()
// or the like has answered with and forget() has not been told of, or the root.
//
// Ownership: names, spans and slices are the caller's, and used only during the call, but for a JointTransfer's, which
// stay until that goes. Memory of a LocalSlice is registered with volume(). What an answer holds is the caller's.
//
// Errors: each operation answers with the errno POSIX and Linux give. Beside what is said here: ESTALE: no such inode,
// or another client has the volume; EROFS: it is read-only, or has become so; EIO: data was lost, or the brick was away
// for longer than a soft mount waits; ENOSPC; EINTR: OperationContext::interruption was raised. Of a write that
// failed the bytes are undefined.
//
// An operation that has returned is seen by all that begin later, in whatever thread. It survives a crash of this
// process once it is on the bricks, and one of the bricks once sync() has returned.
//
// Threads: every call from any thread at once, but where it says "before others use this". An operation may wait for
// the network: no lock of the caller's is to be held that the answer to another one may need.
#pragma once

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
#include "fs/base/wake_later.h"
#include "fs/inode/cached_regions.h"
#include "fs/operations/file_layout.h"
#include "fs/operations/file_lock.h"
#include "fs/operations/operation.h"
#include "transport/base/result.h"
#include "transport/volume/volume_access.h"

namespace brickfs {

class JointTransfer;
struct FilledRange;  // fs/operations/unit_lending.h

class FileOperations {
 public:
  FileOperations() = default;
  virtual ~FileOperations() = default;
  FileOperations(const FileOperations&) = delete;
  FileOperations& operator=(const FileOperations&) = delete;

  // As long as what it returns lives, changes with it in their context wake up nobody who is to write them down: to be
  // held from a request until it has been answered, so that whoever asked does not wait for that.
  [[nodiscard]] virtual WakeLater answer_first() = 0;

  // --- names. Each answer with attributes counts one more kernel reference to the inode, until forget().
  virtual Result<Attributes> lookup(Ino directory, std::string_view name, const OperationContext& context = {}) = 0;
  virtual void forget(Ino ino, uint64_t references) = 0;
  // One more such reference, which nobody was told of: an inode without names stays, and its bytes are nobody else's.
  // ESTALE: there is no such inode.
  virtual Status hold(Ino ino) = 0;
  // Inodes with such references, and the root: of a part of the numbers from this one on, ascending; empty: there are
  // none.
  virtual std::vector<Ino> referenced_from(Ino from) const = 0;
  virtual Result<Attributes> create(Ino directory, std::string_view name, uint32_t mode, const Caller& caller,
                                    const OperationContext& context = {}) = 0;  // EEXIST
  virtual Result<Attributes> make_temporary(Ino directory, uint32_t mode, const Caller& caller,
                                            const OperationContext& context = {}) = 0;  // O_TMPFILE
  virtual Result<Attributes> make_node(Ino directory, std::string_view name, uint32_t mode, uint32_t rdev,
                                       const Caller& caller, const OperationContext& context = {}) = 0;
  virtual Result<Attributes> make_directory(Ino directory, std::string_view name, uint32_t mode, const Caller& caller,
                                            const OperationContext& context = {}) = 0;
  virtual Result<Attributes> make_symlink(Ino directory, std::string_view name, std::string_view target,
                                          const Caller& caller, const OperationContext& context = {}) = 0;
  virtual Result<Attributes> link(Ino ino, Ino directory, std::string_view name,
                                  const OperationContext& context = {}) = 0;
  virtual Status unlink(Ino directory, std::string_view name, const OperationContext& context = {}) = 0;
  virtual Status remove_directory(Ino directory, std::string_view name, const OperationContext& context = {}) = 0;
  // `whiteout`: who leaves a whiteout (a character device 0:0) where the name was, in the same step; null: nothing
  // stays there. Not with kExchange.
  virtual Result<Renamed> rename(Ino directory, std::string_view name, Ino new_directory, std::string_view new_name,
                                 Rename how, const Caller* whiteout = nullptr,
                                 const OperationContext& context = {}) = 0;
  virtual Result<std::string> read_symlink(Ino ino, const OperationContext& context = {}) = 0;
  // Entries from `offset` (0: the start) on, "." and ".." first, until the visitor stops it. `plus`: with attributes,
  // and a kernel reference for each entry the visitor took but "." and "..". Only those that were there when somebody
  // last read from the start: a listing ends, though names keep coming.
  virtual Status read_directory(Ino directory, uint64_t offset, bool plus, const EntryVisitor& visitor,
                                Touch touch = Touch::kAtime, const OperationContext& context = {}) = 0;

  // --- attributes
  virtual Result<Attributes> get_attributes(Ino ino, const OperationContext& context = {}) = 0;
  // True if attributes of the inode have been in an answer to anybody but the context's thread since this was asked
  // last: one of them may be on its way to the kernel still and be older than a change made just now. What that thread
  // was told has arrived, or it would not ask again.
  virtual bool take_told(Ino ino, const OperationContext& context = {}) = 0;
  virtual Result<Attributes> set_attributes(Ino ino, const AttributeChange& change, const Caller& caller,
                                            const OperationContext& context = {}) = 0;
  // Flags as of setxattr(2). Sets the mode with a POSIX access ACL, as Linux does.
  virtual Status set_xattr(Ino ino, std::string_view name, std::span<const std::byte> value, int flags,
                           const Caller& caller, const OperationContext& context = {}) = 0;
  virtual Result<std::vector<std::byte>> get_xattr(Ino ino, std::string_view name,
                                                   const OperationContext& context = {}) = 0;  // ENODATA
  // Names, each ended by a zero byte. trusted.* is for administrators: here the kernel does not see to that.
  virtual Result<std::vector<std::byte>> list_xattr(Ino ino, const Caller& caller,
                                                    const OperationContext& context = {}) = 0;
  virtual Status remove_xattr(Ino ino, std::string_view name, const OperationContext& context = {}) = 0;

  // --- data. The kernel's references keep an unlinked file; open and release need no call.
  // Bytes read: less than asked for only at the end of the file. Holes read as zeros. `into`: as many slices as one
  // likes.
  virtual Result<uint64_t> read(Ino ino, uint64_t offset, std::span<const LocalSlice> into, Touch touch = Touch::kAtime,
                                const OperationContext& context = {}) = 0;
  // Where its bytes from `offset` on are, in at most so many parts: for whoever sees to that nothing changes them as
  // long as he goes by it. EOPNOTSUPP: not known here.
  virtual Result<FileLayout> layout(Ino ino, uint64_t offset, size_t most_parts) const = 0;
  // Whether reading it would change its time of reading.
  virtual bool is_atime_due(Ino ino) const = 0;
  // All or an error; `append`: at the end of the file, wherever that is now. `unprivileged`: who writes, if that clears
  // the set-uid and set-gid bits; null: they stay. File capabilities are removed by every change of data, unless it was
  // made in mapped memory.
  virtual Result<uint64_t> write(Ino ino, uint64_t offset, std::span<const LocalSlice> from, bool append,
                                 const Caller* unprivileged, bool mapped = false,
                                 const OperationContext& context = {}) = 0;
  // As write(), where that changes nothing but bytes of the file and its times. ERANGE: it would make the file longer,
  // or take set-uid and set-gid bits away. Nothing is done then.
  virtual Result<uint64_t> overwrite(Ino ino, uint64_t offset, std::span<const LocalSlice> from,
                                     const OperationContext& context = {}) = 0;
  // As write(), of bytes that are on the bricks already (fs/operations/unit_lending.h): the units become the file's
  // content in the place of what it has there, in one step. EAGAIN: the range, or what the bricks went through
  // meanwhile, is not such that this can be done. On any error the units are lent yet, and the file is as it was.
  virtual Result<uint64_t> write_units(Ino ino, const FilledRange& filled, const Caller* unprivileged,
                                       const OperationContext& context = {}) = 0;
  // Several of these at once (fs/operations/joint_transfer.h). `context`: of all of them.
  virtual std::unique_ptr<JointTransfer> joint_transfer(const OperationContext& context = {}) = 0;
  // As fallocate(2); EOPNOTSUPP. `unprivileged`: as of write().
  virtual Status allocate(Ino ino, int mode, uint64_t offset, uint64_t length, const Caller* unprivileged,
                          const OperationContext& context = {}) = 0;
  // The first hole of a file at or behind a byte; the end is one, too, of no length. What is preallocated is a hole.
  struct Hole {
    uint64_t begin;
    uint64_t end;
    uint64_t size;  // of the file
    // What lseek() from that byte answers: SEEK_DATA, SEEK_HOLE; ENXIO.
    Result<uint64_t> seek(uint64_t offset, int whence) const;
  };
  virtual Result<Hole> next_hole(Ino ino, uint64_t offset,
                                 const OperationContext& context = {}) = 0;  // ENXIO: at or behind the end
  Result<uint64_t> seek(Ino ino, uint64_t offset, int whence);               // as Hole::seek()
  virtual Result<uint64_t> copy_range(Ino from, uint64_t from_offset, Ino to, uint64_t to_offset, uint64_t length,
                                      const Caller* unprivileged, const OperationContext& context = {}) = 0;
  // Bytes up to there were written, as far as their writer knows, and got no room when the kernel wrote them back: the
  // file is made so long, with zeros where they should be.
  virtual Status cover_lost(Ino ino, uint64_t end) = 0;
  // Everything done before is durable (`ino` as a hint of what matters).
  virtual Status sync(Ino ino, const OperationContext& context = {}) = 0;
  virtual Status sync_all(const OperationContext& context = {}) = 0;

  // All that has been answered so far survives the end of this process. EINTR.
  virtual Status await_written(const OperationContext& context = {}) = 0;
  // --- locks, which bind only those who ask for them (fs/operations/file_lock.h). Of a file that the request's machine
  // has open.
  // The first byte's of those that stand against it; its pid is 0 if another machine's process has it. None: it could
  // be set.
  virtual Result<std::optional<FileLock>> find_lock(const LockRequest& request,
                                                    const OperationContext& context = {}) = 0;
  // Sets it, or unlocks. EAGAIN: another has it; `waits`: until it is free. EDEADLK: whoever has it waits for this
  // owner (of ranges; also of open file description locks, which the kernel does not tell apart). ENOLCK: too many.
  // EINTR: it is not set, also if the machine went meanwhile.
  virtual Status set_lock(const LockRequest& request, bool waits, const OperationContext& context = {}) = 0;
  // The owner of ranges closes the file, which is what that open file is of: all its locks of the file go. Perhaps
  // nobody has that open file any longer; then release_locks() follows, for which others wait a moment. Behind an error
  // they go when whoever keeps them can be told of it, and before the owner has others of that file.
  virtual Status close_locks(Ino ino, const LockOwner& owner, uint64_t open_file,
                             const OperationContext& context = {}) = 0;
  // The open file is gone, and all that was locked by it; an error as of close_locks().
  virtual Status release_locks(Ino ino, uint64_t machine, uint64_t open_file) = 0;
  // The machine is gone, and all that it had locked; who waits there is told EINTR.
  virtual Status release_machine_locks(uint64_t machine) = 0;

  // --- the kernel's page cache
  // It may hold these bytes of the file from now on: before they are read or written for it.
  virtual void note_cached(Ino ino, uint64_t offset, uint64_t length) = 0;
  // Of what was noted anything near these bytes.
  virtual bool is_cached(Ino ino, uint64_t offset, uint64_t length) const = 0;
  // That, to be dropped whole; it is noted no longer.
  virtual std::optional<CachedRegions::Range> take_cached(Ino ino, uint64_t offset, uint64_t length) = 0;
  // Asked before a time of reading is noted, if it is due; by any thread. False: it is not noted. Before others use
  // this.
  virtual void ask_before_touching(std::function<bool()> may_touch) = 0;

  // The kernel's page cache may hold so many bytes that are not written yet: room is kept for them
  // (fs/space/writeback_reserve.h). `on_short`, which does not wait, has them written, and then this or
  // settle_writeback() called.
  virtual void reserve_for_writeback(uint64_t bytes, std::function<void()> on_short) = 0;
  virtual void settle_writeback() = 0;
  virtual bool is_short_for_writeback() const = 0;
  // Regular files that the kernel may know, by ascending number from there on; at most so many inodes are looked at.
  struct KnownFiles {
    std::vector<Ino> files;
    std::optional<Ino> next;  // where to go on; none: those were the last
  };
  virtual KnownFiles known_files(Ino from, size_t most) const = 0;

  // --- the whole
  virtual bool read_only() const = 0;
  // Why it is though it was not asked for, for people; empty: that is not so.
  virtual std::string why_read_only() const = 0;
  // What ails the brick's store (transport/brick/store_trouble.h), as the brick last said; empty: nothing.
  virtual std::string store_trouble() const = 0;
  // Waits for nothing; may be a second old where another machine has the tree.
  virtual FilesystemStat stat() const = 0;
  // Waits for nothing; also during an unmount and after it.
  virtual Uncommitted uncommitted() const = 0;
  virtual PersistenceStat persistence() const = 0;
  // What all this stands on, as far as it is the caller's business. Lives as long as this.
  virtual VolumeAccess& volume() = 0;
};

}  // namespace brickfs
