// SPDX-License-Identifier: Apache-2.0
#include "fs/fuse/serve/hole_search.h"

#include <unistd.h>

#include <cerrno>
#include <cstdint>

#include "transport/base/bytes.h"

namespace brickfs {
namespace {

FileOperations::Hole no_hole(const FileOperations::Hole& of) { return {of.size, of.size, of.size}; }

}  // namespace

void HoleSearch::answer(FuseSession& session, FuseRequest& request, const fuse_lseek_in& in) {
  if (session.writeback() != nullptr) return (void)request.answer(Error(ENOSYS, "seeking"));
  const std::shared_ptr<HoleSearch> search(new HoleSearch(session, request, in));
  if (search->whence_ != SEEK_DATA && search->whence_ != SEEK_HOLE) return (void)request.answer(Error(EINVAL));
  const auto found = search->look();
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

}  // namespace brickfs
