// SPDX-License-Identifier: Apache-2.0
// The C interface to the data of files, and to their locks.
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <optional>

#include "fs/base/slices.h"
#include "fs/library/open_fs.h"
#include "fs/library/path_walk.h"
#include "fs/library/shared_locks.h"

namespace brickfs::library {
namespace {

// Moved at once, and done as a whole: what a brick's client keeps for replay has room for some.
constexpr uint64_t kPartBytes = 4 * kMiB;
constexpr uint64_t kCopyPartBytes = 16 * kMiB;
constexpr uint64_t kMostOffset = INT64_MAX;

using Move = Result<uint64_t> (*)(brickfs_file& file, uint64_t offset, std::span<const LocalSlice> slices);

Result<uint64_t> read_part(brickfs_file& file, uint64_t offset, std::span<const LocalSlice> into) {
  return file.fs.files().read(file.ino, offset, into, file.touch(), context());
}

Result<uint64_t> write_part(brickfs_file& file, uint64_t offset, std::span<const LocalSlice> from) {
  return file.fs.files().write(file.ino, offset, from, (file.flags & O_APPEND) != 0, nullptr, false, context());
}

// Part by part. What was moved counts more than an error behind it.
Result<uint64_t> move_parts(brickfs_file& file, uint64_t offset, std::span<const LocalSlice> slices, Move move) {
  const uint64_t bytes = total_bytes(slices);
  if (offset > kMostOffset) return Error(EINVAL, "offset");
  if (bytes <= kPartBytes) return move(file, offset, slices);
  SliceCursor cursor(slices);
  std::vector<LocalSlice> part;
  uint64_t done = 0;
  while (done < bytes) {
    const uint64_t wanted = std::min(kPartBytes, bytes - done);
    part.clear();
    cursor.take(wanted, part);
    const auto moved = move(file, offset + done, part);
    if (!moved.ok()) {
      if (done == 0) return moved;
      break;
    }
    done += *moved;
    if (*moved < wanted) break;
  }
  return done;
}

int64_t transfer_all(brickfs_file* file, const brickfs_vector* vectors, unsigned count, uint64_t offset, Move move) {
  return served(file, [&]() -> int64_t {
    Slices slices;
    if (const Status status = add_slices(slices, vectors, count, file->fs.children); !status.ok())
      return code_of(status);
    return count_of(move(*file, offset, slices));
  });
}

// --- opening

Status check_flags(int flags) {
  if ((flags & O_PATH) != 0 || (flags & O_ACCMODE) == O_ACCMODE) return Error(EINVAL, "flags");
  if ((flags & O_CREAT) != 0 && (flags & O_DIRECTORY) != 0) return Error(EINVAL, "flags");
  return {};
}

bool wants_temporary(int flags) { return (flags & O_TMPFILE) == O_TMPFILE; }

brickfs_file* make_file(brickfs_fs& fs, InodeRef inode, int flags) {
  auto file = std::make_unique<brickfs_file>(fs, inode.ino(), flags);
  inode.release();
  return file.release();
}

Result<brickfs_file*> open_found(brickfs_fs& fs, InodeRef found, int flags) {
  const bool changes = (flags & O_ACCMODE) != O_RDONLY || (flags & O_TRUNC) != 0;
  if (found.is_directory()) {
    if (changes || (flags & O_CREAT) != 0) return Error(EISDIR, "a directory");
    return make_file(fs, std::move(found), flags);
  }
  if ((flags & O_DIRECTORY) != 0) return Error(ENOTDIR, "not a directory");
  if (!found.is_regular()) return Error(ENXIO, "neither file nor directory");
  if (changes && fs.files().read_only()) return Error(EROFS, "read-only");
  if ((flags & O_TRUNC) != 0)
    static_cast<void>(TRY(fs.files().set_attributes(found.ino(), {.size_bytes = 0}, fs.caller, context())));
  return make_file(fs, std::move(found), flags);
}

Result<brickfs_file*> open_temporary(brickfs_fs& fs, const char* path, int flags, uint32_t mode) {
  if ((flags & O_ACCMODE) == O_RDONLY) return Error(EINVAL, "a file without a name that cannot be written");
  const InodeRef directory = TRY(resolve(fs.files(), path, Follow::kLinks));
  if (!directory.is_directory()) return Error(ENOTDIR, "not a directory");
  InodeRef made(fs.files(), TRY(fs.files().make_temporary(directory.ino(), mode & 07777, fs.caller, context())));
  return make_file(fs, std::move(made), flags);
}

Result<brickfs_file*> open_file(brickfs_fs& fs, const char* path, int flags, uint32_t mode) {
  if (wants_temporary(flags)) return open_temporary(fs, path, flags, mode);
  TRY(check_flags(flags));
  const bool creates = (flags & O_CREAT) != 0;
  const bool only_new = creates && (flags & O_EXCL) != 0;
  LastName last(fs.files());
  TRY(last.find(path));
  for (;;) {
    if (creates && last.ends_with_slash() && !last.is_root() && !last.is_dots())
      return Error(EISDIR, "the path ends with a slash");
    auto found = last.lookup();
    if (found.ok()) {
      if (only_new) return Error(EEXIST, "it is there");
      if (!found->is_link()) return open_found(fs, std::move(*found), flags);
      if ((flags & O_NOFOLLOW) != 0 && !last.ends_with_slash())
        return Error((flags & O_DIRECTORY) != 0 ? ENOTDIR : ELOOP, "a symbolic link");
      TRY(last.follow(*found));
      continue;
    }
    if (!creates || !found.error().is(ENOENT)) return found.error();
    auto made = fs.files().create(last.directory(), last.name(), mode & 07777, fs.caller, context());
    if (made.ok()) return make_file(fs, InodeRef(fs.files(), *made), flags);
    if (only_new || !made.error().is(EEXIST)) return made.error();
  }
}

// --- other changes of data

Status set_size(brickfs_fs& fs, Ino ino, uint64_t size) {
  static_cast<void>(TRY(fs.files().set_attributes(ino, {.size_bytes = size}, fs.caller, context())));
  return {};
}

bool is_known_mode(int mode) {
  const bool punches = (mode & FALLOC_FL_PUNCH_HOLE) != 0;
  if (punches && (mode & FALLOC_FL_KEEP_SIZE) == 0) return false;
  if (punches && (mode & FALLOC_FL_ZERO_RANGE) != 0) return false;
  return (mode & ~(FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE)) == 0;
}

Result<uint64_t> copy(brickfs_file& from, uint64_t from_offset, brickfs_file& to, uint64_t to_offset, uint64_t length) {
  if (!from.reads() || !to.writes() || (to.flags & O_APPEND) != 0) return Error(EBADF, "not open for that");
  if (&from.fs != &to.fs) return Error(EXDEV, "not the same file system");
  if (from_offset > kMostOffset || to_offset > kMostOffset) return Error(EINVAL, "offset");
  const uint64_t size = TRY(from.fs.files().get_attributes(from.ino)).size_bytes;
  length = std::min({length, size - std::min(size, from_offset), kMostOffset - to_offset});
  const bool overlap = from.ino == to.ino && from_offset < to_offset + length && to_offset < from_offset + length;
  if (overlap) return Error(EINVAL, "onto itself");
  uint64_t done = 0;
  while (done < length) {
    const uint64_t part = std::min(kCopyPartBytes, length - done);
    const auto copied =
        from.fs.files().copy_range(from.ino, from_offset + done, to.ino, to_offset + done, part, nullptr, context());
    if (!copied.ok() && done == 0) return copied;
    if (!copied.ok() || *copied == 0) break;
    done += *copied;
  }
  return done;
}

// --- locks

constexpr FileLocks::Patience kNone = std::chrono::milliseconds(0);

FileLocks::Patience patience_of(int timeout_ms) {
  return timeout_ms < 0 ? FileLocks::Patience() : std::chrono::milliseconds(timeout_ms);
}

Result<FileLocks::Range> lock_range(uint64_t offset, uint64_t length) {
  if (offset > kMostOffset || length > kMostOffset - offset) return Error(EINVAL, "range of a lock");
  return FileLocks::Range{offset, length == 0 ? UINT64_MAX : offset + length};
}

Result<FileLocks::Mode> lock_mode(const brickfs_file& file, int type) {
  if (type == F_RDLCK) return file.reads() ? Result(FileLocks::Mode::kShared) : Error(EBADF, "not open for reading");
  if (type == F_WRLCK) return file.writes() ? Result(FileLocks::Mode::kExclusive) : Error(EBADF, "not for writing");
  return Error(EINVAL, "type of a lock");
}

// Without a mode: unlocks.
Status set_lock(brickfs_file& file, FileLocks::Space space, FileLocks::Range range, std::optional<FileLocks::Mode> mode,
                FileLocks::Patience patience) {
  if (file.fs.shared) return set_shared_lock(file, space, range, mode, patience);
  if (mode) return file.fs.locks.lock(space, file.ino, &file, range, *mode, patience, context().interruption);
  file.fs.locks.unlock(space, file.ino, &file, range);
  return {};
}

Status lock_ranges(brickfs_file& file, int type, uint64_t offset, uint64_t length, FileLocks::Patience patience) {
  const FileLocks::Range range = TRY(lock_range(offset, length));
  std::optional<FileLocks::Mode> mode;
  if (type != F_UNLCK) mode = TRY(lock_mode(file, type));
  return set_lock(file, FileLocks::Space::kRanges, range, mode, patience);
}

Status lock_whole(brickfs_file& file, int operation, FileLocks::Patience patience) {
  constexpr FileLocks::Range kWhole{0, UINT64_MAX};
  if ((operation & LOCK_NB) != 0) patience = kNone;
  switch (operation & ~LOCK_NB) {
    case LOCK_SH:
      return set_lock(file, FileLocks::Space::kWhole, kWhole, FileLocks::Mode::kShared, patience);
    case LOCK_EX:
      return set_lock(file, FileLocks::Space::kWhole, kWhole, FileLocks::Mode::kExclusive, patience);
    case LOCK_UN:
      return set_lock(file, FileLocks::Space::kWhole, kWhole, {}, kNone);
    default:
      return Error(EINVAL, "operation of a lock");
  }
}

}  // namespace

Result<uint64_t> read_file(brickfs_file& file, uint64_t offset, std::span<const LocalSlice> into) {
  if (!file.reads()) return Error(EBADF, "not open for reading");
  return move_parts(file, offset, into, read_part);
}

Result<uint64_t> write_file(brickfs_file& file, uint64_t offset, std::span<const LocalSlice> from) {
  if (!file.writes()) return Error(EBADF, "not open for writing");
  const uint64_t written = TRY(move_parts(file, offset, from, write_part));
  if ((file.flags & (O_SYNC | O_DSYNC)) != 0) TRY(sync_file(file));
  return written;
}

Status sync_file(brickfs_file& file) { return file.fs.files().sync(file.ino, context()); }

}  // namespace brickfs::library

using namespace brickfs::library;

bool brickfs_file::reads() const { return (flags & O_ACCMODE) != O_WRONLY; }
bool brickfs_file::writes() const { return (flags & O_ACCMODE) != O_RDONLY; }
brickfs::Touch brickfs_file::touch() const {
  return (flags & O_NOATIME) != 0 ? brickfs::Touch::kNothing : brickfs::Touch::kAtime;
}

int brickfs_open(brickfs_fs* fs, const char* path, int flags, mode_t mode, brickfs_file** file) {
  return served(fs, [&]() -> int {
    if (path == nullptr || file == nullptr) return -EFAULT;
    const auto opened = open_file(*fs, path, flags, mode);
    if (!opened.ok()) return code_of(opened.error());
    *file = *opened;
    return 0;
  });
}

int brickfs_close(brickfs_file* file) {
  return guarded([&]() -> int {
    if (file == nullptr) return -EFAULT;
    if (file->under_way.load() > 0) return -EBUSY;
    delete file;
    return 0;
  });
}

int64_t brickfs_pread(brickfs_file* file, void* data, size_t length, uint64_t offset) {
  const brickfs_vector vector{data, length, nullptr};
  return transfer_all(file, &vector, 1, offset, read_file);
}

int64_t brickfs_pwrite(brickfs_file* file, const void* data, size_t length, uint64_t offset) {
  const brickfs_vector vector{const_cast<void*>(data), length, nullptr};
  return transfer_all(file, &vector, 1, offset, write_file);
}

int64_t brickfs_preadv(brickfs_file* file, const brickfs_vector* vectors, unsigned count, uint64_t offset) {
  return transfer_all(file, vectors, count, offset, read_file);
}

int64_t brickfs_pwritev(brickfs_file* file, const brickfs_vector* vectors, unsigned count, uint64_t offset) {
  return transfer_all(file, vectors, count, offset, write_file);
}

int brickfs_fsync(brickfs_file* file) {
  return served(file, [&]() -> int { return code_of(sync_file(*file)); });
}

int brickfs_truncate(brickfs_fs* fs, const char* path, uint64_t size) {
  return served(fs, [&]() -> int {
    if (path == nullptr) return -EFAULT;
    if (size > kMostOffset) return -EINVAL;
    const auto found = resolve(fs->files(), path, Follow::kLinks);
    if (!found.ok()) return code_of(found.error());
    if (found->is_directory()) return -EISDIR;
    if (!found->is_regular()) return -EINVAL;
    return code_of(set_size(*fs, found->ino(), size));
  });
}

int brickfs_ftruncate(brickfs_file* file, uint64_t size) {
  return served(file, [&]() -> int {
    if (size > kMostOffset || !file->writes()) return -EINVAL;
    return code_of(set_size(file->fs, file->ino, size));
  });
}

int brickfs_fallocate(brickfs_file* file, int mode, uint64_t offset, uint64_t length) {
  return served(file, [&]() -> int {
    if (offset > kMostOffset || length == 0 || length > kMostOffset) return -EINVAL;
    if (!is_known_mode(mode)) return -EOPNOTSUPP;
    if (!file->writes()) return -EBADF;
    if (length > kMostOffset - offset) return -EFBIG;
    return code_of(file->fs.files().allocate(file->ino, mode, offset, length, nullptr, context()));
  });
}

int64_t brickfs_seek(brickfs_file* file, uint64_t offset, int whence) {
  return served(file, [&]() -> int64_t {
    if (offset > kMostOffset) return -ENXIO;
    return count_of(file->fs.files().seek(file->ino, offset, whence));
  });
}

int64_t brickfs_copy_range(brickfs_file* from, uint64_t from_offset, brickfs_file* to, uint64_t to_offset,
                           uint64_t length) {
  return served(from, [&]() -> int64_t {
    if (to == nullptr) return -EFAULT;
    return count_of(copy(*from, from_offset, *to, to_offset, length));
  });
}

int brickfs_lock(brickfs_file* file, int type, uint64_t offset, uint64_t length, int wait) {
  return served(file, [&]() -> int {
    return code_of(lock_ranges(*file, type, offset, length, wait != 0 ? FileLocks::Patience() : kNone));
  });
}

int brickfs_lock_within(brickfs_file* file, int type, uint64_t offset, uint64_t length, int timeout_ms) {
  return served(file,
                [&]() -> int { return code_of(lock_ranges(*file, type, offset, length, patience_of(timeout_ms))); });
}

int brickfs_test_lock(brickfs_file* file, int type, uint64_t offset, uint64_t length) {
  return served(file, [&]() -> int {
    const auto range = lock_range(offset, length);
    if (!range.ok()) return code_of(range.error());
    if (type != F_RDLCK && type != F_WRLCK) return -EINVAL;
    const auto mode = type == F_RDLCK ? FileLocks::Mode::kShared : FileLocks::Mode::kExclusive;
    if (file->fs.shared) {
      const auto locked = is_locked_by_another(*file, *range, mode);
      return locked.ok() ? static_cast<int>(*locked) : code_of(locked.error());
    }
    return file->fs.locks.is_held_by_another(FileLocks::Space::kRanges, file->ino, file, *range, mode) ? 1 : 0;
  });
}

int brickfs_flock(brickfs_file* file, int operation) {
  return served(file, [&]() -> int { return code_of(lock_whole(*file, operation, FileLocks::Patience())); });
}

int brickfs_flock_within(brickfs_file* file, int operation, int timeout_ms) {
  return served(file, [&]() -> int { return code_of(lock_whole(*file, operation, patience_of(timeout_ms))); });
}
