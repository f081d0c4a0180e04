// SPDX-License-Identifier: Apache-2.0
#include "fs/fuse/reply.h"

#include <fcntl.h>

#include <sstream>
#include <string>

#include "fs/fuse/place.h"
#include "fs/fuse/thread_status.h"

namespace brickfs {
namespace {

constexpr unsigned kCapSysAdmin = 21;  // linux/capability.h

// Asked only when a decision hangs on it, so the request's message need not carry the groups. The process waits for the
// answer meanwhile.
bool process_in_group(uint32_t pid, uint32_t gid) {
  std::istringstream groups(std::string(status_field(thread_status(pid), "Groups")));
  for (uint32_t group = 0; groups >> group;) {
    if (group == gid) return true;
  }
  return false;
}

bool process_has_capability(uint32_t pid, unsigned capability) {
  return (status_bits(thread_status(pid), "CapEff") >> capability & 1) != 0;
}

}  // namespace

Caller make_caller(uint32_t uid, uint32_t gid, uint32_t pid, uint32_t umask) {
  Caller caller{.uid = uid, .gid = gid, .umask = umask, .in_group = {}, .is_administrator = {}};
  caller.in_group = [uid, gid, pid](uint32_t group) {
    return uid == 0 || gid == group || process_in_group(pid, group);
  };
  caller.is_administrator = [pid] { return process_has_capability(pid, kCapSysAdmin); };
  return caller;
}

Caller caller_of(fuse_req_t request) {
  const fuse_ctx* const context = fuse_req_ctx(request);
  return make_caller(context->uid, context->gid, static_cast<uint32_t>(context->pid), context->umask);
}

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

fuse_entry_param to_entry(const Attributes& attributes) {
  fuse_entry_param entry{};
  entry.ino = raw(attributes.ino);
  entry.attr = to_stat(attributes);
  entry.attr_timeout = kForeverSeconds;
  entry.entry_timeout = kForeverSeconds;
  return entry;
}

Touch touch_of(uint32_t open_flags) { return (open_flags & O_NOATIME) != 0 ? Touch::kNothing : Touch::kAtime; }

void reply_error(fuse_req_t request, const Error& error) { fuse_reply_err(request, error.code()); }

void reply_written(fuse_req_t request, Ino ino, uint64_t offset, uint64_t length, const Result<uint64_t>& written) {
  const auto answer = [request, written] {
    if (!written.ok()) return reply_error(request, written.error());
    fuse_reply_write(request, *written);
  };
  FusePlace& place = *FusePlace::current();
  PageDropper& pages = mount_of(request).pages();
  Filesystem& filesystem = filesystem_of(request);
  if (place.buffers().for_page_cache) return answer();
  // In this order: what is noted no longer is being dropped as long as the other is not idle.
  if (!filesystem.is_cached(ino, offset, length) && pages.is_idle()) return answer();
  const PageDropper::Turn turn(pages);
  const auto cached = filesystem.take_cached(ino, offset, length).value_or(CachedRegions::Range{0, 0});
  const auto answer_there = place.put_aside();
  const bool dropping = pages.drop(ino, cached.offset, cached.length, [answer, answer_there] { answer_there(answer); });
  if (!dropping) answer_there(answer);
}

void note_written_back(fuse_req_t request, Ino ino, uint64_t end, const Result<uint64_t>& written) {
  WritebackCache* const writeback = mount_of(request).writeback();
  if (writeback != nullptr) writeback->written(ino, end, written.ok() ? Status() : Status(written.error()));
}

void reply_status(fuse_req_t request, const Status& status) { fuse_reply_err(request, status.code()); }

void reply_entry(fuse_req_t request, const Result<Attributes>& attributes) {
  if (!attributes.ok()) return reply_error(request, attributes.error());
  Filesystem& filesystem = filesystem_of(request);
  const fuse_entry_param entry = to_entry(*attributes);
  if (fuse_reply_entry(request, &entry) != 0) filesystem.forget(attributes->ino, 1);
}

void reply_attributes(fuse_req_t request, const Result<Attributes>& attributes) {
  if (!attributes.ok()) return reply_error(request, attributes.error());
  const struct stat out = to_stat(*attributes);
  fuse_reply_attr(request, &out, kForeverSeconds);
}

}  // namespace brickfs
