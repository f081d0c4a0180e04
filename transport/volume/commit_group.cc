// SPDX-License-Identifier: Apache-2.0
#include "transport/volume/commit_group.h"

namespace brickfs {

Status CommitGroup::commit(const std::function<Status()>& run, const Interruption* by) {
  MutexLock lock(mutex_);
  const uint64_t wanted = started_ + 1;
  while (finished_ < wanted) {
    if (running_ || frees_due_ > 0) {
      TRY(wait_interruptibly(changed_, lock, by));
      continue;
    }
    running_ = true;
    while (frees_ > 0) changed_.wait(lock);
    const uint64_t number = ++started_;
    lock.unlock();
    const Status status = run();
    lock.lock();
    running_ = false;
    frees_due_ = frees_waiting_;
    changed_.notify_all();
    if (by != nullptr && status.code() == EINTR) return status;
    finished_ = number;
    last_ = status;
  }
  return last_;
}

CommitGroup::Pause::Pause(CommitGroup& group) : group_(group) {
  MutexLock lock(group_.mutex_);
  group_.paused_ = true;
  group_.changed_.notify_all();
}

CommitGroup::Pause::~Pause() {
  MutexLock lock(group_.mutex_);
  group_.paused_ = false;
  while (group_.frees_ > 0) group_.changed_.wait(lock);
}

CommitGroup::FreeTurn::FreeTurn(CommitGroup& group) : group_(group) {
  MutexLock lock(group_.mutex_);
  ++group_.frees_waiting_;
  while (group_.running_ && !group_.paused_) group_.changed_.wait(lock);
  --group_.frees_waiting_;
  ++group_.frees_;
  if (group_.frees_due_ > 0) {
    --group_.frees_due_;
    group_.changed_.notify_all();
  }
}

CommitGroup::FreeTurn::~FreeTurn() {
  MutexLock lock(group_.mutex_);
  --group_.frees_;
  group_.changed_.notify_all();
}

}  // namespace brickfs
