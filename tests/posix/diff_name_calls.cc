// SPDX-License-Identifier: Apache-2.0
// Calls about names: opening, making, linking, renaming, removing, listing.
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "tests/posix/diff_call.h"

namespace brickfs::posix {
namespace {

constexpr int kRenameNoReplace = 1;  // linux/fs.h
constexpr int kRenameExchange = 2;
constexpr int kRenameWhiteout = 4;

int& file_of(const Call& call, Side& side) { return side.files[static_cast<size_t>(call.slot)]; }

Outcome put_into_slot(const Call& call, Side& side, int fd) {
  Outcome outcome = outcome_of(fd);
  if (file_of(call, side) >= 0) close(file_of(call, side));
  file_of(call, side) = fd;
  if (fd >= 0) outcome.result = 0;
  return outcome;
}

// FIFOs must not block.
Outcome run_open(const Call& call, Side& side) {
  return put_into_slot(call, side, open(call.path.c_str(), call.flags | O_NONBLOCK | O_CLOEXEC, call.mode));
}

Outcome run_reopen(const Call& call, Side& side) {
  char path[64];
  snprintf(path, sizeof(path), "self/fd/%d", side.files[static_cast<size_t>(call.other_slot)]);
  return put_into_slot(call, side, openat(Process::get().proc(), path, call.flags | O_NONBLOCK | O_CLOEXEC));
}

Outcome run_close(const Call& call, Side& side) {
  const int fd = std::exchange(file_of(call, side), -1);
  return outcome_of(close(fd));
}

Outcome run_mkdir(const Call& call, Side&) { return outcome_of(mkdir(call.path.c_str(), call.mode)); }
Outcome run_rmdir(const Call& call, Side&) { return outcome_of(rmdir(call.path.c_str())); }
Outcome run_unlink(const Call& call, Side&) { return outcome_of(unlink(call.path.c_str())); }
Outcome run_symlink(const Call& call, Side&) { return outcome_of(symlink(call.other_path.c_str(), call.path.c_str())); }

// Of devices: the null device, and a block device that there is none of.
Outcome run_mknod(const Call& call, Side&) {
  const dev_t device = call.flags == S_IFCHR ? makedev(1, 3) : call.flags == S_IFBLK ? makedev(240, 77) : 0;
  return outcome_of(mknod(call.path.c_str(), static_cast<mode_t>(call.flags) | call.mode, device));
}

Outcome run_link(const Call& call, Side&) {
  return outcome_of(linkat(AT_FDCWD, call.path.c_str(), AT_FDCWD, call.other_path.c_str(), call.flags));
}

Outcome run_link_file(const Call& call, Side& side) {
  return outcome_of(linkat(file_of(call, side), "", AT_FDCWD, call.path.c_str(), AT_EMPTY_PATH));
}

// A whiteout that cannot be left, as a directory in the way is not empty, changes times on ext4.
Outcome run_rename(const Call& call, Side&) {
  struct stat stat {};
  if ((call.flags & kRenameWhiteout) != 0 && ::stat(call.other_path.c_str(), &stat) == 0 && S_ISDIR(stat.st_mode))
    return {};
  return outcome_of(
      renameat2(AT_FDCWD, call.path.c_str(), AT_FDCWD, call.other_path.c_str(), static_cast<unsigned>(call.flags)));
}

Outcome run_readlink(const Call& call, Side&) {
  char target[5000];
  const size_t room = call.flags != 0 ? static_cast<size_t>(call.flags) : sizeof(target);
  Outcome outcome = outcome_of(readlink(call.path.c_str(), target, room));
  if (outcome.result >= 0) outcome.detail.assign(target, static_cast<size_t>(outcome.result));
  return outcome;
}

Outcome run_list(const Call& call, Side&) {
  DIR* directory = opendir(call.path.c_str());
  if (directory == nullptr) return outcome_of(-1);
  std::vector<std::string> entries;
  while (const dirent* entry = readdir(directory))
    entries.push_back(std::to_string(entry->d_type) + " " + entry->d_name);
  closedir(directory);
  std::sort(entries.begin(), entries.end());
  Outcome outcome{.result = static_cast<int64_t>(entries.size()), .error = 0, .detail = {}};
  for (const std::string& entry : entries) outcome.detail += entry + "\n";
  return outcome;
}

Outcome run_list_file(const Call& call, Side& side) {
  lseek(file_of(call, side), 0, SEEK_SET);
  alignas(8) char buffer[65536];
  Outcome outcome = outcome_of(getdents64(file_of(call, side), buffer, sizeof(buffer)));
  lseek(file_of(call, side), 0, SEEK_SET);  // the position at the end is each file system's own
  std::vector<std::string> entries;
  for (int64_t at = 0; at < outcome.result;) {
    const auto* entry = reinterpret_cast<const dirent64*>(buffer + at);
    entries.emplace_back(entry->d_name);
    at += entry->d_reclen;
  }
  std::sort(entries.begin(), entries.end());
  for (const std::string& entry : entries) outcome.detail += entry + "\n";
  if (outcome.result > 0) outcome.result = static_cast<int64_t>(entries.size());
  return outcome;
}

Outcome run_stat(const Call& call, Side&) {
  struct statx stat {};
  Outcome outcome = outcome_of(statx(AT_FDCWD, call.path.c_str(), call.flags, STATX_BASIC_STATS | STATX_BTIME, &stat));
  if (outcome.result != 0) return outcome;
  char text[160];
  const bool directory = S_ISDIR(stat.stx_mode);
  snprintf(text, sizeof(text), "mode %o nlink %u uid %u gid %u size %lld rdev %u:%u mask %x", stat.stx_mode,
           stat.stx_nlink, stat.stx_uid, stat.stx_gid, directory ? 0LL : static_cast<long long>(stat.stx_size),
           stat.stx_rdev_major, stat.stx_rdev_minor, stat.stx_mask & (STATX_BASIC_STATS | STATX_BTIME));
  outcome.detail = text;
  return outcome;
}

Outcome run_access(const Call& call, Side&) {
  return outcome_of(faccessat(AT_FDCWD, call.path.c_str(), static_cast<int>(call.mode & 7), call.flags));
}

const std::vector<Operation> kNameOperations = {
    {"open",
     14,
     kSlot | kPath | kMode | kMakes,
     {O_RDONLY, O_WRONLY, O_RDWR, O_RDWR, O_RDWR | O_CREAT, O_RDWR | O_CREAT, O_RDWR | O_CREAT,
      O_RDWR | O_CREAT | O_EXCL, O_WRONLY | O_CREAT | O_TRUNC, O_PATH, 3},
     {O_CREAT, O_EXCL, O_TRUNC, O_APPEND, O_DIRECTORY, O_NOFOLLOW, O_SYNC, O_DSYNC, O_NOATIME},
     "put({f}, open({p}, {F} | O_NONBLOCK, {m}))",
     run_open},
    {"tmpfile",
     3,
     kSlot | kPath | kMode,
     {O_TMPFILE | O_RDWR, O_TMPFILE | O_WRONLY, O_TMPFILE | O_RDONLY},
     {O_EXCL},
     "put({f}, open({p}, {F} | O_NONBLOCK, {m}))",
     run_open},
    {"reopen",
     2,
     kSlot | kOtherSlot,
     {O_RDONLY, O_WRONLY, O_RDWR},
     {O_APPEND, O_TRUNC},
     "put({f}, reopen({g}, {F} | O_NONBLOCK))",
     run_reopen},
    {"close", 4, kSlot, {}, {}, "shut({f})", run_close},
    {"mkdir", 7, kPath | kMode | kMakes, {}, {}, "mkdir({p}, {m})", run_mkdir},
    {"rmdir", 4, kPath, {}, {}, "rmdir({p})", run_rmdir},
    {"unlink", 5, kPath, {}, {}, "unlink({p})", run_unlink},
    {"symlink", 4, kPath | kTarget | kMakes, {}, {}, "symlink({q}, {p})", run_symlink},
    {"mknod",
     4,
     kPath | kMode | kMakes,
     {S_IFREG, S_IFIFO, S_IFCHR, S_IFBLK, S_IFSOCK, 0, S_IFDIR},
     {},
     "mknod({p}, {F} | {m}, {F} == S_IFCHR ? makedev(1, 3) : {F} == S_IFBLK ? makedev(240, 77) : 0)",
     run_mknod},
    {"link",
     5,
     kPath | kOtherPath | kMakes,
     {0, 0, AT_SYMLINK_FOLLOW},
     {},
     "linkat(AT_FDCWD, {p}, AT_FDCWD, {q}, {F})",
     run_link},
    {"link_file", 3, kSlot | kPath | kMakes, {}, {}, "linkat({f}, \"\", AT_FDCWD, {p}, AT_EMPTY_PATH)", run_link_file},
    {"rename",
     10,
     kPath | kOtherPath,
     {0, 0, 0, 0, kRenameNoReplace, kRenameExchange, kRenameExchange, kRenameNoReplace | kRenameExchange,
      kRenameWhiteout, kRenameNoReplace | kRenameWhiteout, kRenameExchange | kRenameWhiteout, 8},
     {},
     "renameat2(AT_FDCWD, {p}, AT_FDCWD, {q}, {F})",
     run_rename},
    {"readlink", 2, kPath, {0, 1, 4}, {}, "readlink({p}, buffer, {F} ? {F} : sizeof(buffer))", run_readlink},
    {"list", 3, kPath, {}, {}, "list({p})", run_list},
    {"list_file", 2, kSlot, {}, {}, "getdents64({f}, buffer, sizeof(buffer))", run_list_file},
    {"statx", 6, kPath, {0, AT_SYMLINK_NOFOLLOW}, {}, "statx(AT_FDCWD, {p}, {F}, STATX_BASIC_STATS, &stx)", run_stat},
    {"access",
     3,
     kPath | kMode,
     {0, AT_EACCESS, AT_SYMLINK_NOFOLLOW},
     {},
     "faccessat(AT_FDCWD, {p}, {m} & 7, {F})",
     run_access},
};

}  // namespace

std::span<const Operation> name_operations() { return kNameOperations; }

}  // namespace brickfs::posix
