// SPDX-License-Identifier: Apache-2.0
// The C interface to attributes, extended ones too.
#include <fcntl.h>
#include <sys/xattr.h>
#include <time.h>

#include <cstring>

#include "fs/base/timespec.h"
#include "fs/library/open_fs.h"
#include "fs/library/path_walk.h"

namespace brickfs::library {
namespace {

TimeNs time_now() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME_COARSE, &now);
  return to_time_ns(now);
}

Status set_time(const timespec& time, TimeNs now, std::optional<TimeNs>& out) {
  if (time.tv_nsec == UTIME_OMIT) return {};
  if (time.tv_nsec != UTIME_NOW && (time.tv_nsec < 0 || time.tv_nsec >= kNsPerSecond)) return Error(EINVAL, "time");
  out = time.tv_nsec == UTIME_NOW ? now : to_time_ns(time);
  return {};
}

Result<Follow> follow_of(int flags) {
  if ((flags & ~BRICKFS_NOFOLLOW) != 0) return Error(EINVAL, "flags");
  return (flags & BRICKFS_NOFOLLOW) != 0 ? Follow::kNotLast : Follow::kLinks;
}

Status stat_path(brickfs_fs& fs, const char* path, int flags, struct stat& out) {
  out = to_stat(TRY(resolve(fs.files(), path, TRY(follow_of(flags)))).attributes());
  return {};
}

Status change(brickfs_fs& fs, const char* path, int flags, const AttributeChange& what) {
  const InodeRef found = TRY(resolve(fs.files(), path, TRY(follow_of(flags))));
  if (fs.files().read_only()) return Error(EROFS, "read-only");
  static_cast<void>(TRY(fs.files().set_attributes(found.ino(), what, fs.caller, context())));
  return {};
}

Status set_times(brickfs_fs& fs, const char* path, const timespec* times, int flags) {
  AttributeChange what;
  const TimeNs now = time_now();
  if (times == nullptr) {
    what.atime = what.mtime = now;
  } else {
    TRY(set_time(times[0], now, what.atime));
    TRY(set_time(times[1], now, what.mtime));
    if (!what.atime && !what.mtime) return {};
  }
  return change(fs, path, flags, what);
}

// What the kernel looks at before a file system is asked.
Status check_name(const InodeRef& inode, std::string_view name, bool changes) {
  if (name.empty() || name.size() > limits::kXattrNameBytes) return Error(ERANGE, "name of an attribute");
  if (name.starts_with("user.") && !inode.is_regular() && !inode.is_directory())
    return Error(changes ? EPERM : ENODATA, "neither file nor directory");
  return {};
}

Status set_xattr(brickfs_fs& fs, const char* path, const char* name, std::span<const std::byte> value, int flags) {
  const InodeRef found = TRY(resolve(fs.files(), path, TRY(follow_of(flags & ~(XATTR_CREATE | XATTR_REPLACE)))));
  if (value.size() > limits::kXattrValueBytes) return Error(E2BIG, "value of an attribute");
  TRY(check_name(found, name, true));
  return fs.files().set_xattr(found.ino(), name, value, flags & (XATTR_CREATE | XATTR_REPLACE), fs.caller, context());
}

Result<uint64_t> give(const std::vector<std::byte>& value, void* out, size_t size) {
  if (size == 0) return value.size();
  if (value.size() > size) return Error(ERANGE, "does not fit");
  if (!value.empty()) std::memcpy(out, value.data(), value.size());
  return value.size();
}

Result<uint64_t> get_xattr(brickfs_fs& fs, const char* path, const char* name, void* out, size_t size, int flags) {
  const InodeRef found = TRY(resolve(fs.files(), path, TRY(follow_of(flags))));
  TRY(check_name(found, name, false));
  return give(TRY(fs.files().get_xattr(found.ino(), name)), out, size);
}

Result<uint64_t> list_xattr(brickfs_fs& fs, const char* path, void* out, size_t size, int flags) {
  const InodeRef found = TRY(resolve(fs.files(), path, TRY(follow_of(flags))));
  return give(TRY(fs.files().list_xattr(found.ino(), fs.caller)), out, size);
}

Status remove_xattr(brickfs_fs& fs, const char* path, const char* name, int flags) {
  const InodeRef found = TRY(resolve(fs.files(), path, TRY(follow_of(flags))));
  TRY(check_name(found, name, true));
  return fs.files().remove_xattr(found.ino(), name, context());
}

}  // namespace

struct stat to_stat(const Attributes& attributes) {
  struct stat out {};
  out.st_ino = raw(attributes.ino);
  out.st_mode = attributes.mode;
  out.st_nlink = attributes.nlink;
  out.st_uid = attributes.uid;
  out.st_gid = attributes.gid;
  out.st_rdev = attributes.rdev;
  out.st_size = static_cast<off_t>(attributes.size_bytes);
  out.st_blksize = kUnitBytes;
  out.st_blocks = static_cast<blkcnt_t>(attributes.blocks_512);
  out.st_atim = to_timespec(attributes.atime);
  out.st_mtim = to_timespec(attributes.mtime);
  out.st_ctim = to_timespec(attributes.ctime);
  return out;
}

}  // namespace brickfs::library

using namespace brickfs::library;

int brickfs_stat(brickfs_fs* fs, const char* path, int flags, struct stat* stat) {
  return served(fs, [&]() -> int {
    if (path == nullptr || stat == nullptr) return -EFAULT;
    return code_of(stat_path(*fs, path, flags, *stat));
  });
}

int brickfs_fstat(brickfs_file* file, struct stat* stat) {
  return served(file, [&]() -> int {
    if (stat == nullptr) return -EFAULT;
    const auto attributes = file->fs.files().get_attributes(file->ino);
    if (!attributes.ok()) return code_of(attributes.error());
    *stat = to_stat(*attributes);
    return 0;
  });
}

int brickfs_chmod(brickfs_fs* fs, const char* path, mode_t mode) {
  return served(fs, [&]() -> int {
    if (path == nullptr) return -EFAULT;
    return code_of(change(*fs, path, 0, {.mode = mode & 07777}));
  });
}

int brickfs_chown(brickfs_fs* fs, const char* path, uid_t uid, gid_t gid, int flags) {
  return served(fs, [&]() -> int {
    if (path == nullptr) return -EFAULT;
    brickfs::AttributeChange what;
    what.kill_privileges = true;  // also where it names no owner, as Linux has it
    if (uid != static_cast<uid_t>(-1)) what.uid = uid;
    if (gid != static_cast<gid_t>(-1)) what.gid = gid;
    return code_of(change(*fs, path, flags, what));
  });
}

int brickfs_utimens(brickfs_fs* fs, const char* path, const struct timespec* times, int flags) {
  return served(fs, [&]() -> int {
    if (path == nullptr) return -EFAULT;
    return code_of(set_times(*fs, path, times, flags));
  });
}

int brickfs_setxattr(brickfs_fs* fs, const char* path, const char* name, const void* value, size_t size, int flags) {
  return served(fs, [&]() -> int {
    if (path == nullptr || name == nullptr || (value == nullptr && size > 0)) return -EFAULT;
    return code_of(set_xattr(*fs, path, name, {static_cast<const std::byte*>(value), size}, flags));
  });
}

int64_t brickfs_getxattr(brickfs_fs* fs, const char* path, const char* name, void* value, size_t size, int flags) {
  return served(fs, [&]() -> int64_t {
    if (path == nullptr || name == nullptr || (value == nullptr && size > 0)) return -EFAULT;
    return count_of(get_xattr(*fs, path, name, value, size, flags));
  });
}

int64_t brickfs_listxattr(brickfs_fs* fs, const char* path, char* names, size_t size, int flags) {
  return served(fs, [&]() -> int64_t {
    if (path == nullptr || (names == nullptr && size > 0)) return -EFAULT;
    return count_of(list_xattr(*fs, path, names, size, flags));
  });
}

int brickfs_removexattr(brickfs_fs* fs, const char* path, const char* name, int flags) {
  return served(fs, [&]() -> int {
    if (path == nullptr || name == nullptr) return -EFAULT;
    return code_of(remove_xattr(*fs, path, name, flags));
  });
}
