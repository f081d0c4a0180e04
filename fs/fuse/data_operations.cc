// SPDX-License-Identifier: Apache-2.0
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <span>

#include "fs/fuse/joint_requests.h"
#include "fs/fuse/operations.h"
#include "fs/fuse/place.h"
#include "fs/fuse/reply.h"

namespace brickfs {
namespace {

constexpr size_t kCopyBytes =
    16 * kMiB;  // of one copy_file_range: it cannot be interrupted, and may copy less than asked for

// ENOSYS: opening and closing need no request from now on, and the kernel keeps the file's cached data.
void open(fuse_req_t request, fuse_ino_t, fuse_file_info*) { fuse_reply_err(request, ENOSYS); }

// Before the bytes are looked for: whoever writes them from then on finds it.
void note_if_cached(fuse_req_t request, fuse_ino_t ino, off_t offset, size_t size) {
  if (!FusePlace::current()->buffers().for_page_cache) return;
  filesystem_of(request).note_cached(ino_of(ino), static_cast<uint64_t>(offset), size);
}

void read(fuse_req_t request, fuse_ino_t ino, size_t size, off_t offset, fuse_file_info*) {
  FuseBuffers& buffers = FusePlace::current()->buffers();
  const std::span<std::byte> room = buffers.reply().first(std::min(size, buffers.reply().size()));
  const LocalSlice into = buffers.slice(room);
  const Touch touch = touch_of(buffers.open_flags);
  note_if_cached(request, ino, offset, size);
  JointRequests* const joint = JointRequests::current();
  if (joint != nullptr) return joint->read(request, ino_of(ino), static_cast<uint64_t>(offset), into, touch);
  const auto bytes =
      filesystem_of(request).read(ino_of(ino), static_cast<uint64_t>(offset), std::span(&into, 1), touch);
  if (!bytes.ok()) return reply_error(request, bytes.error());
  fuse_reply_buf(request, reinterpret_cast<const char*>(room.data()), *bytes);
}

// After a write that clears set-uid bits the kernel would go on honouring the mode it has cached.
void drop_cached_mode(fuse_req_t request, fuse_ino_t ino) {
  fuse_lowlevel_notify_inval_inode(mount_of(request).session(), ino, -1, 0);
}

// The kernel has worked out where an O_APPEND write goes, under the inode's lock, and nobody else changes the file;
// writes from its page cache carry the flags of some open file, so O_APPEND says nothing here. Those (writepage) are of
// mapped memory, which leaves file capabilities; or, with writeback=on, of write(2), for which the kernel has removed
// them.
void write(fuse_req_t request, fuse_ino_t ino, const char* data, size_t size, off_t offset, fuse_file_info* info) {
  Filesystem& filesystem = filesystem_of(request);
  const FuseBuffers& buffers = FusePlace::current()->buffers();
  const auto payload = std::as_writable_bytes(std::span(const_cast<char*>(data), size));
  const LocalSlice from = buffers.slice(payload);
  note_if_cached(request, ino, offset, size);
  JointRequests* const joint = JointRequests::current();
  if (joint != nullptr && buffers.kill_privileges) return joint->decline(request);
  if (joint != nullptr)
    return joint->write(request, ino_of(ino), static_cast<uint64_t>(offset), from, info->writepage != 0);
  bool clears_mode = false;
  if (buffers.kill_privileges) {
    const auto before = filesystem.get_attributes(ino_of(ino));
    clears_mode = before.ok() && (before->mode & (S_ISUID | S_ISGID)) != 0;
  }
  const Caller caller = caller_of(request);
  const auto written = filesystem.write(ino_of(ino), static_cast<uint64_t>(offset), std::span(&from, 1), false,
                                        buffers.kill_privileges ? &caller : nullptr, info->writepage != 0);
  if (written.ok() && clears_mode) drop_cached_mode(request, ino);
  if (info->writepage != 0) note_written_back(request, ino_of(ino), static_cast<uint64_t>(offset) + size, written);
  reply_written(request, ino_of(ino), static_cast<uint64_t>(offset), size, written);
}

// O_SYNC and O_DSYNC come here, too: the kernel follows each such write with an fsync.
void fsync(fuse_req_t request, fuse_ino_t ino, int, fuse_file_info*) {
  reply_status(request, filesystem_of(request).sync(ino_of(ino)));
}

// With fallocate and copy_file_range the kernel does not say whether the caller loses set-uid bits (fs/fuse/extra.h).
class CallerOfChange {
 public:
  CallerOfChange(fuse_req_t request, fuse_ino_t changed)
      : request_(request), changed_(changed), caller_(caller_of(request)) {
    if (caller_.uid == 0 || !mount_of(request).kills_privileges()) return;
    const auto before = filesystem_of(request).get_attributes(ino_of(changed));
    loses_ = before.ok() && (before->mode & (S_ISUID | S_ISGID)) != 0;
  }
  const Caller* unprivileged() const { return loses_ ? &caller_ : nullptr; }
  // Before the reply.
  void changed() const {
    if (loses_) drop_cached_mode(request_, changed_);
  }

 private:
  const fuse_req_t request_;
  const fuse_ino_t changed_;
  const Caller caller_;
  bool loses_ = false;
};

void fallocate(fuse_req_t request, fuse_ino_t ino, int mode, off_t offset, off_t length, fuse_file_info*) {
  const CallerOfChange caller(request, ino);
  const Status status = filesystem_of(request).allocate(ino_of(ino), mode, static_cast<uint64_t>(offset),
                                                        static_cast<uint64_t>(length), caller.unprivileged());
  caller.changed();
  mount_of(request).drop_attributes(ino_of(ino));
  reply_status(request, status);
}

// What was written and is in the kernel's pages is data, too; the kernel asks us without having written it back.
void lseek(fuse_req_t request, fuse_ino_t ino, off_t offset, int whence, fuse_file_info*) {
  if (WritebackCache* const writeback = mount_of(request).writeback(); writeback != nullptr) {
    const Status status = writeback->before_seek(ino_of(ino), FusePlace::current()->waiter().interruption());
    if (!status.ok()) return reply_status(request, status);
  }
  const auto found = filesystem_of(request).seek(ino_of(ino), static_cast<uint64_t>(offset), whence);
  if (!found.ok()) return reply_error(request, found.error());
  fuse_reply_lseek(request, static_cast<off_t>(*found));
}

void copy_file_range(fuse_req_t request, fuse_ino_t from, off_t from_offset, fuse_file_info*, fuse_ino_t to,
                     off_t to_offset, fuse_file_info*, size_t length, int) {
  const CallerOfChange caller(request, to);
  const auto copied = filesystem_of(request).copy_range(ino_of(from), static_cast<uint64_t>(from_offset), ino_of(to),
                                                        static_cast<uint64_t>(to_offset), std::min(length, kCopyBytes),
                                                        caller.unprivileged());
  caller.changed();
  if (!copied.ok()) return reply_error(request, copied.error());
  fuse_reply_write(request, *copied);
}

}  // namespace

void set_data_operations(fuse_lowlevel_ops& operations) {
  operations.open = open;
  operations.read = read;
  operations.write = write;
  operations.fsync = fsync;
  operations.fallocate = fallocate;
  operations.lseek = lseek;
  operations.copy_file_range = copy_file_range;
}

}  // namespace brickfs
