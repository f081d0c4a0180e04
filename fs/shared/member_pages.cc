// SPDX-License-Identifier: Apache-2.0
// Which pages of a member's files its own kernel has.
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "fs/shared/member_files.h"
#include "transport/brick/limits.h"

namespace brickfs::shared {

void MemberFiles::keep_pages(OwnKernel& kernel, std::vector<Ino> files) {
  {
    MutexLock lock(mutex_);
    for (const Ino ino : files)  // what was noted elsewhere
      if (const auto known = known_.find(ino); known != known_.end()) known->second.cached.add(0, limits::kFileBytes);
  }
  pages_ = std::make_shared<KernelPages>(kernel, held_, std::move(files));
  link_->set_pages(pages_);
}

void MemberFiles::let_go_of_kernel() {
  if (pages_) pages_->stop();
}

void MemberFiles::note_cached(Ino ino, uint64_t offset, uint64_t length) {
  MutexLock lock(mutex_);
  const auto known = known_.find(ino);
  if (known != known_.end()) known->second.cached.add(offset, length);
}

bool MemberFiles::is_cached(Ino ino, uint64_t offset, uint64_t length) const {
  MutexLock lock(mutex_);
  const auto known = known_.find(ino);
  return known != known_.end() && known->second.cached.touches(offset, length);
}

std::optional<CachedRegions::Range> MemberFiles::take_cached(Ino ino, uint64_t offset, uint64_t length) {
  MutexLock lock(mutex_);
  const auto known = known_.find(ino);
  return known == known_.end() ? std::nullopt : known->second.cached.take(offset, length);
}

}  // namespace brickfs::shared
