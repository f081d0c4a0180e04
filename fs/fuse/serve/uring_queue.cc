// SPDX-License-Identifier: Apache-2.0
#include "fs/fuse/serve/uring_queue.h"

namespace brickfs {

bool FuseUringQueue::collect_or_pass(FuseUringRequest& entry) {
  MutexLock lock(mutex_);
  if (collecting_) {
    passed_.push_back(&entry);
    return false;
  }
  collecting_ = true;
  return true;
}

bool FuseUringQueue::take_passed(std::vector<FuseUringRequest*>& requests) {
  MutexLock lock(mutex_);
  collecting_ = !passed_.empty();
  requests.insert(requests.end(), passed_.begin(), passed_.end());
  passed_.clear();
  return collecting_;
}

void FuseUringQueue::resign() {
  MutexLock lock(mutex_);
  collecting_ = false;
  for (FuseUringRequest* const entry : passed_) {
    left_.push_back(entry);
    left_something_.notify_one();
  }
  passed_.clear();
}

bool FuseUringQueue::leave(FuseUringRequest& entry) {
  MutexLock lock(mutex_);
  if (stopping_) return false;
  left_.push_back(&entry);
  left_something_.notify_one();
  return true;
}

FuseUringRequest* FuseUringQueue::wait() {
  MutexLock lock(mutex_);
  while (left_.empty() && !stopping_) left_something_.wait(lock);
  if (left_.empty()) return nullptr;
  FuseUringRequest* const entry = left_.front();
  left_.pop_front();
  return entry;
}

void FuseUringQueue::stop() {
  MutexLock lock(mutex_);
  stopping_ = true;
  left_something_.notify_all();
}

}  // namespace brickfs
