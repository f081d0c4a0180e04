// SPDX-License-Identifier: Apache-2.0
// What the journal keeps of the members of a shared volume (fs/operations/member_journal.h).
#include <algorithm>

#include "fs/operations/filesystem_state.h"

namespace brickfs {

using Mode = InodeLocks::Mode;

std::vector<KnownMember> Filesystem::members() const { return impl_->members.all(); }

Status Filesystem::begin_member(const MemberRow& row, const Interruption* by) {
  TRY(impl_->admit_change({.interruption = by}));
  impl_->members.begin(row, [this](Transaction& rows) { return impl_->journal->append(rows); });
  return impl_->journal->await_written(by);
}

void Filesystem::end_member(uint64_t session) {
  if (impl_->read_only) return;
  impl_->members.end(session, [this](Transaction& rows) { return impl_->journal->append(rows); });
}

// A file that a member has made, and was not told of yet, is named by the answer that waits for it.
void Filesystem::end_grace() {
  std::vector<Ino> unclaimed;
  {
    MutexLock lock(impl_->unclaimed_mutex);
    unclaimed.swap(impl_->unclaimed);
  }
  for (const KnownMember& member : impl_->members.all())
    for (const auto& [slot, reply] : member.replies) std::erase(unclaimed, Ino{reply.first});
  for (const Ino ino : unclaimed) {
    if (!impl_->journal->admit().ok()) return;  // the next mount does it
    const InodeLocks lock(impl_->inodes, {ino}, Mode::kExclusive);
    Inode* const inode = impl_->inodes.find(ino);
    if (inode != nullptr && inode->nlink == 0 && inode->references.load() == 0) impl_->delete_inode(*inode);
  }
}

}  // namespace brickfs
