// SPDX-License-Identifier: Apache-2.0
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <span>

#include "fs/fuse/answers.h"
#include "fs/fuse/mount.h"
#include "fs/fuse/operations.h"

namespace brickfs {
namespace {

constexpr uint64_t kCopyBytes =
    16 * kMiB;  // of one copy_file_range: it cannot be interrupted, and may copy less than asked for

// ENOSYS: opening and closing need no request from now on, and the kernel keeps the file's cached data.
void open(FuseMount&, FuseRequest& request) { request.answer(Error(ENOSYS)); }

// The kernel's references keep an unlinked file.
void release(FuseMount&, FuseRequest& request) { request.answer(Status()); }

void read(FuseMount& mount, FuseRequest& request) {
  const FuseRequest::Transfer* const transfer = request.transfer();
  if (transfer == nullptr) return (void)request.answer(Error(EINVAL));
  Filesystem& filesystem = mount.filesystem();
  // Before the bytes are looked for: whoever writes them from then on finds it.
  if (transfer->for_page_cache) filesystem.note_cached(request.ino(), transfer->offset, transfer->bytes);
  const auto bytes = filesystem.read(request.ino(), transfer->offset, std::span(&transfer->data, 1), transfer->touch);
  bytes.ok() ? request.answer(std::span<const std::byte>(transfer->data.data, *bytes)) : request.answer(bytes.error());
}

bool has_set_id_bits(Filesystem& filesystem, Ino ino) {
  const auto attributes = filesystem.get_attributes(ino);
  return attributes.ok() && (attributes->mode & (S_ISUID | S_ISGID)) != 0;
}

// The kernel has worked out where an O_APPEND write goes, under the inode's lock, and nobody else changes the file;
// writes from its page cache carry the flags of some open file, so O_APPEND says nothing here. Those (writes_back) are
// of mapped memory, which leaves file capabilities; or, with writeback=on, of write(2), for which the kernel has
// removed them.
void write(FuseMount& mount, FuseRequest& request) {
  const FuseRequest::Transfer* const transfer = request.transfer();
  if (transfer == nullptr) return (void)request.answer(Error(EINVAL));
  Filesystem& filesystem = mount.filesystem();
  if (transfer->for_page_cache) filesystem.note_cached(request.ino(), transfer->offset, transfer->bytes);
  const auto write_as = [&](const Caller* unprivileged) {
    return filesystem.write(request.ino(), transfer->offset, std::span(&transfer->data, 1), false, unprivileged,
                            transfer->writes_back);
  };
  if (!transfer->kills_privileges) return answer_write(mount, request, write_as(nullptr));
  const bool clears_mode = has_set_id_bits(filesystem, request.ino());
  const Caller caller = request.caller();
  const auto written = write_as(&caller);
  if (written.ok() && clears_mode) request.cleared_mode(request.ino());
  answer_write(mount, request, written);
}

// O_SYNC and O_DSYNC come here, too: the kernel follows each such write with an fsync.
void fsync(FuseMount& mount, FuseRequest& request) { request.answer(mount.filesystem().sync(request.ino())); }

void syncfs(FuseMount& mount, FuseRequest& request) { request.answer(mount.filesystem().sync_all()); }

// With fallocate and copy_file_range the kernel does not say whether the caller loses set-uid bits.
class CallerOfChange {
 public:
  CallerOfChange(FuseMount& mount, FuseRequest& request, Ino changed)
      : request_(request), changed_(changed), caller_(request.caller()) {
    loses_ = caller_.uid != 0 && mount.negotiation().kills_privileges() && has_set_id_bits(mount.filesystem(), changed);
  }
  const Caller* unprivileged() const { return loses_ ? &caller_ : nullptr; }
  // Before the answer.
  void changed() const {
    if (loses_) request_.cleared_mode(changed_);
  }

 private:
  FuseRequest& request_;
  const Ino changed_;
  const Caller caller_;
  bool loses_ = false;
};

void fallocate(FuseMount& mount, FuseRequest& request, const fuse_fallocate_in& in) {
  const CallerOfChange caller(mount, request, request.ino());
  const Status status = mount.filesystem().allocate(request.ino(), static_cast<int>(in.mode), in.offset, in.length,
                                                    caller.unprivileged());
  caller.changed();
  request.answer(status);
}

// What was written and is in the kernel's pages is data, too; the kernel asks us without having written it back.
void lseek(FuseMount& mount, FuseRequest& request, const fuse_lseek_in& in) {
  if (WritebackCache* const writeback = mount.writeback(); writeback != nullptr) {
    const Status status = writeback->before_seek(request.ino(), request.interruption());
    if (!status.ok()) return (void)request.answer(status);
  }
  const auto found = mount.filesystem().seek(request.ino(), in.offset, static_cast<int>(in.whence));
  found.ok() ? request.answer_with(fuse_lseek_out{*found}) : request.answer(found.error());
}

void copy_file_range(FuseMount& mount, FuseRequest& request, const fuse_copy_file_range_in& in) {
  const Ino to{in.nodeid_out};
  const CallerOfChange caller(mount, request, to);
  const auto copied = mount.filesystem().copy_range(request.ino(), in.off_in, to, in.off_out,
                                                    std::min(in.len, kCopyBytes), caller.unprivileged());
  caller.changed();
  if (!copied.ok()) return (void)request.answer(copied.error());
  request.answer_with(fuse_write_out{.size = static_cast<uint32_t>(*copied), .padding = 0});
}

constexpr std::array kDataOperations = {
    operation<open>(FUSE_OPEN, kStampsNothing),
    operation<release>(FUSE_RELEASE, kStampsNothing),
    operation<read>(FUSE_READ, kStampsNothing),
    operation<write>(FUSE_WRITE, kStampsNothing),
    operation<fsync>(FUSE_FSYNC, kStampsNothing),
    operation<syncfs>(FUSE_SYNCFS, kStampsNothing),
    operation<fallocate, fuse_fallocate_in>(FUSE_FALLOCATE),
    operation<lseek, fuse_lseek_in>(FUSE_LSEEK, kStampsNothing),
    operation<copy_file_range, fuse_copy_file_range_in>(FUSE_COPY_FILE_RANGE, kStampsNothing),
};

}  // namespace

void answer_write(FuseMount& mount, FuseRequest& request, const Result<uint64_t>& written) {
  const FuseRequest::Transfer& transfer = *request.transfer();
  if (transfer.writes_back && mount.writeback() != nullptr) {
    mount.writeback()->written(request.ino(), transfer.offset + transfer.bytes,
                               written.ok() ? Status() : Status(written.error()));
  }
  request.answer_written(written);
}

std::span<const FuseOperation> data_operations() { return kDataOperations; }

}  // namespace brickfs
