// SPDX-License-Identifier: Apache-2.0
#include <linux/stat.h>
#include <sys/sysmacros.h>
#include <time.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "fs/base/timespec.h"
#include "fs/fuse/interrupt/thread_status.h"
#include "fs/fuse/protocol/operations.h"
#include "fs/fuse/serve/session.h"
#include "transport/brick/limits.h"

namespace brickfs {
namespace {

// By an open file: before a write to it (fs/fuse/cache/writeback_cache.h). At other times the kernel asks without.
void getattr(FuseSession& session, FuseRequest& request, const fuse_getattr_in& in) {
  WritebackCache* const writeback = session.writeback();
  const bool is_asked_by_writer = (in.getattr_flags & FUSE_GETATTR_FH) != 0 && session.negotiation().only_writers_ask();
  if (is_asked_by_writer && writeback != nullptr) {
    const Status status = writeback->before_write(request.ino(), request.interruption());
    if (!status.ok()) return (void)request.answer(status);
  }
  answer_attributes(request, session.files().get_attributes(request.ino(), request.context()));
}

StatxTime to_statx_time(TimeNs time) {
  const timespec spec = to_timespec(time);
  return {.seconds = spec.tv_sec, .nanoseconds = static_cast<uint32_t>(spec.tv_nsec), .reserved = 0};
}

// Birth times, besides what getattr tells.
void statx(FuseSession& session, FuseRequest& request) {
  const auto found = session.files().get_attributes(request.ino(), request.context());
  if (!found.ok()) return (void)request.answer(found.error());
  StatxOut out{};
  out.attr_valid = request.kept_seconds();
  out.stat.mask = STATX_BASIC_STATS | STATX_BTIME;
  out.stat.blksize = kUnitBytes;
  out.stat.nlink = found->nlink;
  out.stat.uid = found->uid;
  out.stat.gid = found->gid;
  out.stat.mode = static_cast<uint16_t>(found->mode);
  out.stat.ino = raw(found->ino);
  out.stat.size = found->size_bytes;
  out.stat.blocks = found->blocks_512;
  out.stat.atime = to_statx_time(found->atime);
  out.stat.btime = to_statx_time(found->btime);
  out.stat.ctime = to_statx_time(found->ctime);
  out.stat.mtime = to_statx_time(found->mtime);
  out.stat.rdev_major = major(found->rdev);
  out.stat.rdev_minor = minor(found->rdev);
  request.answer_with(out);
}

// The clock that the kernel stamps files with.
TimeNs time_now() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME_COARSE, &now);
  return to_time_ns(now);
}

TimeNs time_of(uint64_t seconds, uint32_t nanoseconds) {
  return to_time_ns({.tv_sec = static_cast<time_t>(seconds), .tv_nsec = nanoseconds});
}

AttributeChange change_of(const fuse_setattr_in& in) {
  AttributeChange change;
  if (in.valid & FATTR_MODE) change.mode = in.mode;
  if (in.valid & FATTR_UID) change.uid = in.uid;
  if (in.valid & FATTR_GID) change.gid = in.gid;
  if (in.valid & FATTR_SIZE) change.size_bytes = in.size;
  if (in.valid & FATTR_ATIME) change.atime = time_of(in.atime, in.atimensec);
  if (in.valid & FATTR_MTIME) change.mtime = time_of(in.mtime, in.mtimensec);
  if (in.valid & FATTR_CTIME) change.ctime = time_of(in.ctime, in.ctimensec);
  if (in.valid & FATTR_ATIME_NOW) change.atime = time_now();
  if (in.valid & FATTR_MTIME_NOW) change.mtime = time_now();
  return change;
}

void setattr(FuseSession& session, FuseRequest& request, const fuse_setattr_in& in) {
  AttributeChange change = change_of(in);
  // A change of owner clears the bits whoever makes it; the kernel leaves that to us (fs/fuse/protocol/negotiation.h).
  // A chown that names no owner comes as a request for nothing. But so do the preliminaries of writes by others, which
  // say by themselves what goes.
  const bool nothing_else = (in.valid & ~uint32_t{FATTR_CTIME | FATTR_FH | FATTR_LOCKOWNER}) == 0;
  change.kill_privileges = (in.valid & FATTR_KILL_SUIDGID) != 0;
  change.kill_if_owner = nothing_else && session.negotiation().kills_privileges();
  WritebackCache* const writeback = session.writeback();
  if (writeback != nullptr && change.size_bytes == uint64_t{0}) writeback->forget_lost(request.ino());
  Caller caller = request.caller();
  if (change.kill_if_owner) caller.uid = user_of(caller.uid, request.header().pid).value_or(caller.uid);
  // chmod: what the caller may not set the kernel has taken away, by the ids of his mount (setattr_prepare()).
  if (change.mode && !change.uid && !change.gid) {
    caller.in_group = [](uint32_t) { return true; };
    caller.groups = [] { return Groups{.all = true}; };
  }
  answer_attributes(request, session.files().set_attributes(request.ino(), change, caller, request.context()));
}

void setxattr(FuseSession& session, FuseRequest& request, const SetxattrIn& in) {
  const std::string_view name = request.name(sizeof(in));
  const std::span<const std::byte> value = request.body(sizeof(in) + name.size() + 1);
  if (value.size() < in.size) return (void)request.answer(Error(EINVAL));
  request.answer(session.files().set_xattr(request.ino(), name, value.first(in.size), static_cast<int>(in.flags),
                                           request.caller(), request.context()));
}

// As getxattr(2): size 0 asks how long the value is.
void answer_value(FuseRequest& request, const Result<std::vector<std::byte>>& value, size_t size) {
  if (!value.ok()) {
    request.answer(value.error());
  } else if (size == 0) {
    request.answer_with(fuse_getxattr_out{.size = static_cast<uint32_t>(value->size()), .padding = 0});
  } else if (value->size() > size) {
    request.answer(Error(ERANGE));
  } else {
    request.answer(std::span<const std::byte>(*value));
  }
}

void getxattr(FuseSession& session, FuseRequest& request, const fuse_getxattr_in& in) {
  answer_value(request, session.files().get_xattr(request.ino(), request.name(sizeof(in)), request.context()), in.size);
}

void listxattr(FuseSession& session, FuseRequest& request, const fuse_getxattr_in& in) {
  answer_value(request, session.files().list_xattr(request.ino(), request.caller(), request.context()), in.size);
}

void removexattr(FuseSession& session, FuseRequest& request) {
  request.answer(session.files().remove_xattr(request.ino(), request.name(0), request.context()));
}

void statfs(FuseSession& session, FuseRequest& request) {
  const FilesystemStat stat = session.files().stat();
  fuse_statfs_out out{};
  out.st.bsize = stat.unit_bytes;
  out.st.frsize = stat.unit_bytes;
  out.st.blocks = stat.total_units;
  out.st.bfree = stat.free_units;
  out.st.bavail = stat.free_units;
  out.st.files = stat.inodes + stat.free_inodes;
  out.st.ffree = stat.free_inodes;
  out.st.namelen = limits::kNameBytes;
  request.answer_with(out);
}

void destroy(FuseSession&, FuseRequest& request) { request.answer(Status()); }

constexpr std::array kAttributeOperations = {
    operation<getattr, fuse_getattr_in>(FUSE_GETATTR, "getattr", kStampsNothing).that_takes(kLittle),
    operation<statx>(kOpcodeStatx, "statx", kStampsNothing),
    operation<setattr, fuse_setattr_in>(FUSE_SETATTR, "setattr", kStampsNothing),
    operation<setxattr, SetxattrIn>(FUSE_SETXATTR, "setxattr").with_names(1),
    operation<getxattr, fuse_getxattr_in>(FUSE_GETXATTR, "getxattr", kStampsNothing).with_names(1).that_takes(kLittle),
    operation<listxattr, fuse_getxattr_in>(FUSE_LISTXATTR, "listxattr", kStampsNothing).that_takes(kLittle),
    operation<removexattr>(FUSE_REMOVEXATTR, "removexattr").with_names(1),
    operation<statfs>(FUSE_STATFS, "statfs", kStampsNothing).that_takes(kLittle),
    operation<destroy>(FUSE_DESTROY, "destroy", kStampsNothing),
};

}  // namespace

std::span<const FuseOperation> attribute_operations() { return kAttributeOperations; }

}  // namespace brickfs
