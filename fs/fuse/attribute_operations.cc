// SPDX-License-Identifier: Apache-2.0
#include <sys/statvfs.h>
#include <time.h>

#include <cerrno>
#include <cstddef>
#include <span>
#include <vector>

#include "fs/fuse/operations.h"
#include "fs/fuse/place.h"
#include "fs/fuse/reply.h"
#include "transport/brick/limits.h"

namespace brickfs {
namespace {

// By an open file: before a write to it (fs/fuse/writeback_cache.h). At other times the kernel asks without.
void getattr(fuse_req_t request, fuse_ino_t ino, fuse_file_info* file) {
  WritebackCache* const writeback = mount_of(request).writeback();
  if (file != nullptr && writeback != nullptr) {
    const Status status = writeback->before_write(ino_of(ino), FusePlace::current()->waiter().interruption());
    if (!status.ok()) return reply_status(request, status);
  }
  reply_attributes(request, filesystem_of(request).get_attributes(ino_of(ino)));
}

// The clock that the kernel stamps files with.
TimeNs time_now() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME_COARSE, &now);
  return to_time_ns(now);
}

AttributeChange change_of(const struct stat& attributes, int valid) {
  AttributeChange change;
  if (valid & FUSE_SET_ATTR_MODE) change.mode = attributes.st_mode;
  if (valid & FUSE_SET_ATTR_UID) change.uid = attributes.st_uid;
  if (valid & FUSE_SET_ATTR_GID) change.gid = attributes.st_gid;
  if (valid & FUSE_SET_ATTR_SIZE) change.size_bytes = static_cast<uint64_t>(attributes.st_size);
  if (valid & FUSE_SET_ATTR_ATIME) change.atime = to_time_ns(attributes.st_atim);
  if (valid & FUSE_SET_ATTR_MTIME) change.mtime = to_time_ns(attributes.st_mtim);
  if (valid & FUSE_SET_ATTR_CTIME) change.ctime = to_time_ns(attributes.st_ctim);
  if (valid & FUSE_SET_ATTR_ATIME_NOW) change.atime = time_now();
  if (valid & FUSE_SET_ATTR_MTIME_NOW) change.mtime = time_now();
  return change;
}

void setattr(fuse_req_t request, fuse_ino_t ino, struct stat* attributes, int valid, fuse_file_info*) {
  AttributeChange change = change_of(*attributes, valid);
  // A change of owner clears the bits whoever makes it; the kernel leaves that to us (fs/fuse/extra.h). A chown that
  // names no owner comes as a request for nothing. But so do the preliminaries of writes by others, which say by
  // themselves what goes.
  const bool nothing_else = (valid & ~FUSE_SET_ATTR_CTIME) == 0;
  change.kill_privileges = FusePlace::current()->buffers().kill_privileges;
  change.kill_if_owner = nothing_else && mount_of(request).kills_privileges();
  WritebackCache* const writeback = mount_of(request).writeback();
  if (writeback != nullptr && change.size_bytes == uint64_t{0}) writeback->forget_lost(ino_of(ino));
  reply_attributes(request, filesystem_of(request).set_attributes(ino_of(ino), change, caller_of(request)));
}

void setxattr(fuse_req_t request, fuse_ino_t ino, const char* name, const char* value, size_t size, int flags) {
  const Status status = filesystem_of(request).set_xattr(ino_of(ino), name, std::as_bytes(std::span(value, size)),
                                                         flags, caller_of(request));
  mount_of(request).drop_attributes(ino_of(ino));
  reply_status(request, status);
}

// As getxattr(2): size 0 asks how long the value is.
void reply_value(fuse_req_t request, const Result<std::vector<std::byte>>& value, size_t size) {
  if (!value.ok()) return reply_error(request, value.error());
  if (size == 0) {
    fuse_reply_xattr(request, value->size());
  } else if (value->size() > size) {
    fuse_reply_err(request, ERANGE);
  } else {
    fuse_reply_buf(request, reinterpret_cast<const char*>(value->data()), value->size());
  }
}

void getxattr(fuse_req_t request, fuse_ino_t ino, const char* name, size_t size) {
  reply_value(request, filesystem_of(request).get_xattr(ino_of(ino), name), size);
}

void listxattr(fuse_req_t request, fuse_ino_t ino, size_t size) {
  reply_value(request, filesystem_of(request).list_xattr(ino_of(ino), caller_of(request)), size);
}

void removexattr(fuse_req_t request, fuse_ino_t ino, const char* name) {
  const Status status = filesystem_of(request).remove_xattr(ino_of(ino), name);
  mount_of(request).drop_attributes(ino_of(ino));
  reply_status(request, status);
}

void statfs(fuse_req_t request, fuse_ino_t) {
  const FilesystemStat stat = filesystem_of(request).stat();
  struct statvfs out {};
  out.f_bsize = stat.unit_bytes;
  out.f_frsize = stat.unit_bytes;
  out.f_blocks = stat.total_units;
  out.f_bfree = stat.free_units;
  out.f_bavail = stat.free_units;
  out.f_files = stat.inodes + stat.free_inodes;
  out.f_ffree = stat.free_inodes;
  out.f_favail = stat.free_inodes;
  out.f_namemax = limits::kNameBytes;
  fuse_reply_statfs(request, &out);
}

}  // namespace

void set_attribute_operations(fuse_lowlevel_ops& operations) {
  operations.getattr = getattr;
  operations.setattr = setattr;
  operations.setxattr = setxattr;
  operations.getxattr = getxattr;
  operations.listxattr = listxattr;
  operations.removexattr = removexattr;
  operations.statfs = statfs;
}

}  // namespace brickfs
