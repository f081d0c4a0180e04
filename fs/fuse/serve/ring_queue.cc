// SPDX-License-Identifier: Apache-2.0
#include "fs/fuse/serve/ring_queue.h"

namespace brickfs {

bool FuseRingQueue::collect_or_pass(FuseRingRequest& entry) {
  MutexLock lock(mutex_);
  if (collecting_) {
    passed_.push_back(&entry);
    return false;
  }
  collecting_ = true;
  return true;
}

bool FuseRingQueue::take_passed(std::vector<FuseRingRequest*>& requests) {
  MutexLock lock(mutex_);
  collecting_ = !passed_.empty();
  requests.insert(requests.end(), passed_.begin(), passed_.end());
  passed_.clear();
  return collecting_;
}

void FuseRingQueue::resign() {
  MutexLock lock(mutex_);
  collecting_ = false;
  for (FuseRingRequest* const entry : passed_) {
    left_.push_back(entry);
    left_something_.notify_one();
  }
  passed_.clear();
}

bool FuseRingQueue::leave(FuseRingRequest& entry) {
  MutexLock lock(mutex_);
  if (stopping_) return false;
  left_.push_back(&entry);
  left_something_.notify_one();
  return true;
}

FuseRingRequest* FuseRingQueue::wait() {
  MutexLock lock(mutex_);
  while (left_.empty() && !stopping_) left_something_.wait(lock);
  if (left_.empty()) return nullptr;
  FuseRingRequest* const entry = left_.front();
  left_.pop_front();
  return entry;
}

void FuseRingQueue::stop() {
  MutexLock lock(mutex_);
  stopping_ = true;
  left_something_.notify_all();
}

}  // namespace brickfs
