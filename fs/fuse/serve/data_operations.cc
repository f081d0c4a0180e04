// SPDX-License-Identifier: Apache-2.0
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <span>

#include "fs/fuse/interrupt/thread_status.h"
#include "fs/fuse/protocol/answers.h"
#include "fs/fuse/protocol/operations.h"
#include "fs/fuse/serve/hole_search.h"
#include "fs/fuse/serve/session.h"

namespace brickfs {
namespace {

constexpr uint64_t kCopyBytes =
    16 * kMiB;  // of one copy_file_range: it cannot be interrupted, and may copy less than asked for

// ENOSYS: opening and closing need no request from now on, and the kernel keeps the file's cached data.
void open(FuseSession&, FuseRequest& request) { request.answer(Error(ENOSYS)); }

// The kernel's references keep an unlinked file.
void release(FuseSession&, FuseRequest& request) { request.answer(Status()); }

void read(FuseSession& session, FuseRequest& request) {
  const FuseRequest::Transfer* const transfer = request.transfer();
  if (transfer == nullptr) return (void)request.answer(Error(EINVAL));
  FileOperations& files = session.files();
  // Before the bytes are looked for: whoever writes them from then on finds it.
  if (transfer->for_page_cache) files.note_cached(request.ino(), transfer->offset, transfer->bytes);
  const auto bytes =
      files.read(request.ino(), transfer->offset, std::span(&transfer->data, 1), transfer->touch, request.context());
  bytes.ok() ? request.answer(std::span<const std::byte>(transfer->data.data, *bytes)) : request.answer(bytes.error());
}

bool has_set_id_bits(FuseSession& session, const FuseRequest& request, Ino ino) {
  const auto attributes = session.files().get_attributes(ino, request.context());
  return attributes.ok() && (attributes->mode & (S_ISUID | S_ISGID)) != 0;
}

// The kernel has worked out where an O_APPEND write goes, under the inode's lock, and nobody else changes the file;
// writes from its page cache carry the flags of some open file, so O_APPEND says nothing here. Those (writes_back) are
// of mapped memory, which leaves file capabilities; or, with writeback=on, of write(2), for which the kernel has
// removed them.
void write(FuseSession& session, FuseRequest& request) {
  const FuseRequest::Transfer* const transfer = request.transfer();
  if (transfer == nullptr) return (void)request.answer(Error(EINVAL));
  FileOperations& files = session.files();
  if (transfer->for_page_cache) files.note_cached(request.ino(), transfer->offset, transfer->bytes);
  const auto write_as = [&](const Caller* unprivileged) {
    return files.write(request.ino(), transfer->offset, std::span(&transfer->data, 1), false, unprivileged,
                       transfer->writes_back, request.context());
  };
  if (!transfer->kills_privileges) return answer_write(session, request, write_as(nullptr));
  const Caller caller = request.caller();
  if (has_set_id_bits(session, request, request.ino())) request.clears_mode(request.ino());
  answer_write(session, request, write_as(&caller));
}

// O_SYNC and O_DSYNC come here, too: the kernel follows each such write with an fsync.
void fsync(FuseSession& session, FuseRequest& request) {
  request.answer(session.files().sync(request.ino(), request.context()));
}

void syncfs(FuseSession& session, FuseRequest& request) { request.answer(session.files().sync_all(request.context())); }

// With fallocate and copy_file_range the kernel does not say whether the caller loses set-uid bits: all but root do.
// Null: he does not.
const Caller* unprivileged(FuseSession& session, FuseRequest& request, Ino changed, const Caller& caller) {
  if (!session.negotiation().kills_privileges() || !has_set_id_bits(session, request, changed)) return nullptr;
  if (user_of(caller.uid, request.header().pid) == 0U) return nullptr;
  request.clears_mode(changed);
  return &caller;
}

void fallocate(FuseSession& session, FuseRequest& request, const fuse_fallocate_in& in) {
  const Caller caller = request.caller();
  request.answer(session.files().allocate(request.ino(), static_cast<int>(in.mode), in.offset, in.length,
                                          unprivileged(session, request, request.ino(), caller), request.context()));
}

void lseek(FuseSession& session, FuseRequest& request, const fuse_lseek_in& in) {
  HoleSearch::answer(session, request, in);
}

void copy_file_range(FuseSession& session, FuseRequest& request, const fuse_copy_file_range_in& in) {
  const Ino to{in.nodeid_out};
  const Caller caller = request.caller();
  const auto copied = session.files().copy_range(request.ino(), in.off_in, to, in.off_out, std::min(in.len, kCopyBytes),
                                                 unprivileged(session, request, to, caller), request.context());
  if (!copied.ok()) return (void)request.answer(copied.error());
  request.answer_with(fuse_write_out{.size = static_cast<uint32_t>(*copied), .padding = 0});
}

constexpr std::array kDataOperations = {
    operation<open>(FUSE_OPEN, "open", kStampsNothing),
    operation<release>(FUSE_RELEASE, "release", kStampsNothing).that_takes(kLittle).for_open_file(),
    operation<read>(FUSE_READ, "read", kStampsNothing).for_open_file(),
    operation<write>(FUSE_WRITE, "write", kStampsNothing).for_open_file(),
    operation<fsync>(FUSE_FSYNC, "fsync", kStampsNothing).that_takes(kMuch).for_open_file(),
    operation<syncfs>(FUSE_SYNCFS, "syncfs", kStampsNothing).that_takes(kMuch),
    operation<fallocate, fuse_fallocate_in>(FUSE_FALLOCATE, "fallocate").that_takes(kMuch),
    operation<lseek, fuse_lseek_in>(FUSE_LSEEK, "lseek", kStampsNothing).that_takes(kLittle),
    operation<copy_file_range, fuse_copy_file_range_in>(FUSE_COPY_FILE_RANGE, "copy_file_range", kStampsNothing)
        .that_takes(kMuch),
};

}  // namespace

void answer_write(FuseSession& session, FuseRequest& request, const Result<uint64_t>& written) {
  const FuseRequest::Transfer& transfer = *request.transfer();
  if (transfer.writes_back && session.writeback() != nullptr) {
    session.writeback()->written(request.ino(), transfer.offset + transfer.bytes,
                                 written.ok() ? Status() : Status(written.error()));
  } else if (transfer.writes_back) {
    request.stamped(request.ino());  // the kernel takes older attributes after such a write
  }
  request.answer_written(written);
}

std::span<const FuseOperation> data_operations() { return kDataOperations; }

}  // namespace brickfs
