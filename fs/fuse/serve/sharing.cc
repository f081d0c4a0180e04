// SPDX-License-Identifier: Apache-2.0
#include "fs/fuse/serve/sharing.h"

#include <fcntl.h>

#include "fs/fuse/protocol/protocol.h"

namespace brickfs {

// Counted in a turn that has not ended meanwhile: else whoever ends it would not wait for this.
FuseSharing::Validity::Validity(FuseSharing& sharing) {
  if (sharing.how_ == Sharing::kCoordinator) {
    for (;;) {
      const unsigned turn = sharing.turn_;
      answering_ = &sharing.answering_[turn];
      ++*answering_;
      if (sharing.turn_ == turn) break;
      --*answering_;
    }
  }
  seconds_ = sharing.seconds();
}

FuseSharing::Validity::~Validity() {
  if (answering_ != nullptr && --*answering_ == 0) answering_->notify_all();
}

// A kernel that cannot be told to forget is given nothing to keep.
uint64_t FuseSharing::seconds() const {
  if (how_ == Sharing::kNone) return kForeverSeconds;
  const bool may_keep = how_ == Sharing::kCoordinator && !has_members_ && negotiation_.has_epochs();
  return may_keep ? kForeverSeconds : 0;
}

void FuseSharing::set_members(bool has_members) {
  has_members_ = has_members;
  end_turn();
}

void FuseSharing::become_member() {
  how_ = Sharing::kMember;
  end_turn();
}

std::vector<Ino> FuseSharing::open_by_pages() const {
  std::vector<Ino> files;
  MutexLock lock(mutex_);
  for (const auto& [opened, ino] : by_pages_) files.push_back(ino);
  return files;
}

// Who counted himself before is waited for.
void FuseSharing::end_turn() {
  const MutexLock one_at_a_time(ending_turn_);
  const unsigned before = turn_;
  turn_ = 1 - before;
  for (size_t left; (left = answering_[before]) > 0;) answering_[before].wait(left);
}

// A kernel that keeps bytes asks how long a file is before it reads past the end that it knows, and passes over the
// answer if it is told meanwhile to drop pages of it: then it takes the file to end where it did. So it keeps none of
// what other machines may change, but for those of mapped memory until the file is opened once more, and of files that
// were opened before there were members. And who appends writes past them, since only then the kernel says that the
// bytes are to be appended.
fuse_open_out FuseSharing::open(Ino ino, uint32_t flags) {
  const Sharing how = how_;
  fuse_open_out out{};
  out.fh = ++opened_;
  if (how == Sharing::kCoordinator) out.open_flags = FOPEN_KEEP_CACHE;
  const bool can_be_direct = negotiation_.maps_direct_files() || (flags & O_ACCMODE) == O_WRONLY;
  const bool is_better_direct = has_members_ || (flags & O_APPEND) != 0;
  if (how == Sharing::kMember || (is_better_direct && can_be_direct)) {
    out.open_flags |= FOPEN_DIRECT_IO | FOPEN_PARALLEL_DIRECT_WRITES;
  } else {
    MutexLock lock(mutex_);
    by_pages_.emplace(out.fh, ino);
  }
  return out;
}

void FuseSharing::release(uint64_t opened) {
  MutexLock lock(mutex_);
  by_pages_.erase(opened);
}

fuse_open_out FuseSharing::open_created(Ino ino, uint32_t flags) {
  if (is_shared()) return open(ino, flags);
  fuse_open_out out{};
  out.open_flags = FOPEN_KEEP_CACHE;
  return out;
}

bool FuseSharing::appends(const FuseRequest::Transfer& transfer) const {
  return is_shared() && !transfer.writes_back && (transfer.open_flags & O_APPEND) != 0;
}

}  // namespace brickfs
