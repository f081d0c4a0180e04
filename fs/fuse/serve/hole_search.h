// SPDX-License-Identifier: Apache-2.0
// SEEK_DATA and SEEK_HOLE. What a program has stored through a mapping may be in the kernel's pages alone, over what
// the server has as a hole: a copy that passed over it would have zeros there. So where the kernel may have pages of a
// hole that an answer relies on, it is told to drop them, which writes those back first, and the file is looked at
// again. If that is not done at once, or the kernel calls pages written too early (before Linux 6.16), all is data: who
// asks then reads it.
//
// With the kernel's write-back cache the kernel alone knows how long a file is. It answers by itself: all is data.
//
// Threads: any.
#pragma once

#include <memory>

#include "fs/fuse/cache/page_dropper.h"
#include "fs/fuse/protocol/request.h"
#include "fs/fuse/serve/session.h"

namespace brickfs {

class HoleSearch : public std::enable_shared_from_this<HoleSearch> {
 public:
  // Answers the request, perhaps later by another thread.
  static void answer(FuseSession& session, FuseRequest& request, const fuse_lseek_in& in);

 private:
  HoleSearch(FuseSession& session, FuseRequest& request, const fuse_lseek_in& in)
      : session_(session), ino_(request.ino()), offset_(in.offset), whence_(static_cast<int>(in.whence)) {}
  Result<FileOperations::Hole> look() const { return session_.files().next_hole(ino_, offset_); }
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

}  // namespace brickfs
