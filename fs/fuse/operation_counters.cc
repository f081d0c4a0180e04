// SPDX-License-Identifier: Apache-2.0
#include "fs/fuse/operation_counters.h"

#include <algorithm>
#include <cerrno>

namespace brickfs {
namespace {

constexpr uint32_t kOther = 0;  // no opcode

std::string_view name_of_opcode(uint32_t opcode) {
  switch (opcode) {
    case FUSE_LOOKUP:
      return "lookup";
    case FUSE_FORGET:
      return "forget";
    case FUSE_BATCH_FORGET:
      return "batch_forget";
    case FUSE_GETATTR:
      return "getattr";
    case FUSE_SETATTR:
      return "setattr";
    case FUSE_READLINK:
      return "readlink";
    case FUSE_SYMLINK:
      return "symlink";
    case FUSE_MKNOD:
      return "mknod";
    case FUSE_MKDIR:
      return "mkdir";
    case FUSE_UNLINK:
      return "unlink";
    case FUSE_RMDIR:
      return "rmdir";
    case FUSE_RENAME:
    case FUSE_RENAME2:
      return "rename";
    case FUSE_LINK:
      return "link";
    case FUSE_OPEN:
      return "open";
    case FUSE_READ:
      return "read";
    case FUSE_WRITE:
      return "write";
    case FUSE_STATFS:
      return "statfs";
    case FUSE_RELEASE:
      return "release";
    case FUSE_FSYNC:
      return "fsync";
    case FUSE_SETXATTR:
      return "setxattr";
    case FUSE_GETXATTR:
      return "getxattr";
    case FUSE_LISTXATTR:
      return "listxattr";
    case FUSE_REMOVEXATTR:
      return "removexattr";
    case FUSE_FLUSH:
      return "flush";
    case FUSE_OPENDIR:
      return "opendir";
    case FUSE_READDIR:
      return "readdir";
    case FUSE_READDIRPLUS:
      return "readdirplus";
    case FUSE_RELEASEDIR:
      return "releasedir";
    case FUSE_FSYNCDIR:
      return "fsyncdir";
    case FUSE_ACCESS:
      return "access";
    case FUSE_CREATE:
      return "create";
    case FUSE_FALLOCATE:
      return "fallocate";
    case FUSE_LSEEK:
      return "lseek";
    case FUSE_COPY_FILE_RANGE:
      return "copy_file_range";
    case FUSE_SYNCFS:
      return "syncfs";
    case FUSE_TMPFILE:
      return "tmpfile";
    case kOpcodeStatx:
      return "statx";
    case FUSE_IOCTL:
      return "ioctl";
    case FUSE_POLL:
      return "poll";
    case FUSE_GETLK:
    case FUSE_SETLK:
    case FUSE_SETLKW:
      return "lock";
    case FUSE_INIT:
      return "init";
    case FUSE_DESTROY:
      return "destroy";
    case FUSE_INTERRUPT:
      return "interrupt";
    default:
      return "other";
  }
}

bool is_failure(uint32_t opcode, int error) {
  if (error == 0 || error == ENOSYS) return false;  // the latter: the kernel is to do it itself from now on
  const bool may_be_missing = error == ENOENT && opcode == FUSE_LOOKUP;
  const bool may_lack = error == ENODATA && opcode == FUSE_GETXATTR;
  return !may_be_missing && !may_lack;
}

}  // namespace

void OperationCounters::count(uint32_t opcode, int error, std::chrono::nanoseconds took, uint64_t bytes) {
  counters_.count(opcode < kKinds ? opcode : kOther, took, is_failure(opcode, error), bytes);
}

std::vector<OperationCounters::Operation> OperationCounters::operations() const {
  std::vector<Operation> all;
  for (size_t kind = 0; kind < kKinds; ++kind) {
    const Operation one{name_of_opcode(static_cast<uint32_t>(kind)), counters_.counts(kind)};
    if (one.counts.count() == 0) continue;
    const auto same = std::ranges::find(all, one.name, &Operation::name);
    if (same == all.end()) {
      all.push_back(one);
    } else {
      same->counts += one.counts;
    }
  }
  std::ranges::sort(all, {}, &Operation::name);
  return all;
}

}  // namespace brickfs
