// SPDX-License-Identifier: Apache-2.0
#include "server/store/group_sync.h"

namespace brickfs {

Status GroupSync::sync() {
  MutexLock lock(mutex_);
  const uint64_t wanted = begun_ + 1;  // the first that begins from now on
  while (failure_.ok() && ended_ < wanted) {
    if (begun_ == ended_) {
      run();
    } else {
      ended_changed_.wait(lock);
    }
  }
  return failure_;
}

void GroupSync::run() {
  ++begun_;
  const uint64_t table_writes = table_writes_.load();
  mutex_.unlock();
  const Status synced = device_.sync();
  mutex_.lock();
  ended_ = begun_;
  if (synced.ok()) {
    table_synced_ = table_writes;
  } else {
    failure_ = synced;
    failed_ = true;
  }
  ended_changed_.notify_all();
}

}  // namespace brickfs
