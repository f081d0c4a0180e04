// SPDX-License-Identifier: Apache-2.0
#include "fs/operations/deferred_truncations.h"

namespace brickfs {
namespace {

constexpr size_t kPruneFrom = 64;  // entries

}  // namespace

void DeferredTruncations::note(Ino ino, Lsn truncated_by, Lsn durable) {
  MutexLock lock(mutex_);
  if (files_.size() >= kPruneFrom) {
    absl::erase_if(files_, [durable](const auto& file) { return file.second <= durable; });
  }
  files_[ino] = truncated_by;
  any_.store(true);
}

Status DeferredTruncations::wait_until_durable(Ino ino, Journal& journal, const Interruption* by) {
  if (!any_.load()) return {};
  {
    MutexLock lock(mutex_);
    const auto file = files_.find(ino);
    if (file == files_.end()) return {};
    if (file->second <= journal.durable()) {
      files_.erase(file);
      any_.store(!files_.empty());
      return {};
    }
  }
  return journal.sync(by);
}

}  // namespace brickfs
