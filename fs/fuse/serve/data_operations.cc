// SPDX-License-Identifier: Apache-2.0

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "fs/fuse/cache/page_dropper.h"
#include "fs/fuse/interrupt/thread_status.h"
#include "fs/fuse/protocol/operations.h"
#include "fs/fuse/protocol/request.h"
#include "fs/fuse/serve/session.h"
#include "transport/base/bytes.h"

namespace brickfs {

namespace {

// SEEK_DATA and SEEK_HOLE. What a program has stored through a mapping may be in the kernel's pages alone, over what
// the server has as a hole: a copy that passed over it would have zeros there. So where the kernel may have pages of a
// hole that an answer relies on, it is told to drop them, which writes those back first, and the file is looked at
// again. If that is not done at once, or the kernel calls pages written too early (before Linux 6.16), all is data: who
// asks then reads it.
//
// With the kernel's write-back cache the kernel alone knows how long a file is. It answers by itself: all is data.
//
// Threads: any.
class HoleSearch : public std::enable_shared_from_this<HoleSearch> {
 public:
  // Answers the request, perhaps later by another thread.
  static void answer(FuseSession& session, FuseRequest& request, const fuse_lseek_in& in);

 private:
  HoleSearch(FuseSession& session, FuseRequest& request, const fuse_lseek_in& in)
      : session_(session), ino_(request.ino()), offset_(in.offset), whence_(static_cast<int>(in.whence)) {}
  Result<FileOperations::Hole> look(const OperationContext& context = {}) const {
    return session_.files().next_hole(ino_, offset_, context);
  }
  // What an answer relies on being a hole. Empty: nothing.
  PageDropper::Range relied_on(const FileOperations::Hole& hole) const;
  bool may_be_stored_to(PageDropper::Range hole) const;
  void drop_and_look_again(PageDropper::Range hole);
  void answer_later(const Result<FileOperations::Hole>& found);

  FuseSession& session_;
  const Ino ino_;
  const uint64_t offset_;
  const int whence_;
  FuseRequest::Answer answer_;
};

FileOperations::Hole no_hole(const FileOperations::Hole& of) { return {of.size, of.size, of.size}; }

void HoleSearch::answer(FuseSession& session, FuseRequest& request, const fuse_lseek_in& in) {
  if (session.writeback() != nullptr) return (void)request.answer(Error(ENOSYS, "seeking"));
  const std::shared_ptr<HoleSearch> search(new HoleSearch(session, request, in));
  if (search->whence_ != SEEK_DATA && search->whence_ != SEEK_HOLE) return (void)request.answer(Error(EINVAL));
  const auto found = search->look(request.context());
  if (!found.ok()) return (void)request.answer(found.error());
  const PageDropper::Range hole = search->relied_on(*found);
  const bool is_sure = !search->may_be_stored_to(hole);
  if (!is_sure && session.negotiation().waits_for_pages()) {
    search->answer_ = request.answer_later();
    return search->drop_and_look_again(hole);
  }
  const auto place = (is_sure ? *found : no_hole(*found)).seek(in.offset, search->whence_);
  place.ok() ? request.answer_with(fuse_lseek_out{*place}) : request.answer(place.error());
}

PageDropper::Range HoleSearch::relied_on(const FileOperations::Hole& hole) const {
  if (whence_ == SEEK_DATA && offset_ < hole.begin) return {0, 0};
  return {hole.begin, hole.end - hole.begin};
}

bool HoleSearch::may_be_stored_to(PageDropper::Range hole) const {
  return hole.length > 0 && !session_.files().read_only() &&
         session_.cache().may_have_pages(ino_, hole.offset, hole.length);
}

// Another hole than was dropped is found where that was stored to: then, once and for all, the rest of the file.
void HoleSearch::drop_and_look_again(PageDropper::Range hole) {
  session_.cache().drop_hole(ino_, hole, [search = shared_from_this(), hole](bool dropped) {
    const auto found = search->look();
    if (!found.ok()) return search->answer_later(found);
    if (!dropped) return search->answer_later(no_hole(*found));
    const PageDropper::Range next = search->relied_on(*found);
    const bool is_new = next.offset < hole.offset || next.offset + next.length > hole.offset + hole.length;
    if (!is_new || !search->may_be_stored_to(next)) return search->answer_later(found);
    search->drop_and_look_again({next.offset, INT64_MAX - next.offset});
  });
}

void HoleSearch::answer_later(const Result<FileOperations::Hole>& found) {
  const Result<uint64_t> place = found.ok() ? found->seek(offset_, whence_) : Result<uint64_t>(found.error());
  if (!place.ok()) return answer_(place.code(), {});
  answer_(0, bytes_of(fuse_lseek_out{*place}));
}

constexpr uint64_t kCopyBytes =
    16 * kMiB;  // of one copy_file_range: it cannot be interrupted, and may copy less than asked for

// ENOSYS: opening and closing need no request from now on, and the kernel keeps the file's cached data.
void open(FuseSession& session, FuseRequest& request, const fuse_open_in& in) {
  if (!session.sharing().is_shared()) return (void)request.answer(Error(ENOSYS));
  request.answer_with(session.sharing().open(request.ino(), in.flags));
}

// The kernel's references keep an unlinked file.
void release(FuseSession& session, FuseRequest& request, const fuse_release_in& in) {
  if (session.sharing().is_shared()) {
    session.locks().release(request.ino(), in.fh);
    session.sharing().release(in.fh);
  }
  request.answer(Status());
}

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

// The kernel has worked out where an O_APPEND write goes, under the inode's lock, by the size that it knows. Where
// other machines write, too, it goes where the file ends now (FuseSharing::appends). Writes of the page cache that
// nobody waits for (writes_back) are of mapped memory, which leaves file capabilities; or, with writeback=on, of
// write(2), for which the kernel has removed them.
void write(FuseSession& session, FuseRequest& request) {
  const FuseRequest::Transfer* const transfer = request.transfer();
  if (transfer == nullptr) return (void)request.answer(Error(EINVAL));
  FileOperations& files = session.files();
  if (transfer->for_page_cache) files.note_cached(request.ino(), transfer->offset, transfer->bytes);
  const bool appends = session.sharing().appends(*transfer);
  const auto write_as = [&](const Caller* unprivileged) {
    return files.write(request.ino(), transfer->offset, std::span(&transfer->data, 1), appends, unprivileged,
                       transfer->writes_back, request.context());
  };
  const Ino ino = request.ino();
  const PageDropper::Range misplaced{transfer->offset, appends && transfer->for_page_cache ? transfer->bytes : 0};
  if (transfer->kills_privileges) {
    const Caller caller = request.caller();
    if (has_set_id_bits(session, request, request.ino())) request.clears_mode(request.ino());
    answer_write(session, request, write_as(&caller));
  } else {
    answer_write(session, request, write_as(nullptr));
  }
  // Appended by a file that was opened without O_APPEND: the kernel has the bytes where it thought that they go.
  if (misplaced.length > 0) session.cache().drop_pages(ino, misplaced, PageDropper::Asker::kOther, [] {});
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
    operation<open, fuse_open_in>(FUSE_OPEN, "open", kStampsNothing),
    operation<release, fuse_release_in>(FUSE_RELEASE, "release", kStampsNothing).that_takes(kLittle).for_open_file(),
    operation<read>(FUSE_READ, "read", kStampsNothing).for_open_file(),
    operation<write>(FUSE_WRITE, "write", kStampsNothing).for_open_file(),
    operation<fsync>(FUSE_FSYNC, "fsync", kStampsNothing).that_takes(kDisk).for_open_file(),
    operation<syncfs>(FUSE_SYNCFS, "syncfs", kStampsNothing).that_takes(kDisk),
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
