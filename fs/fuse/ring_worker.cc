// SPDX-License-Identifier: Apache-2.0
#include "fs/fuse/ring_worker.h"

#include <cerrno>

namespace brickfs {

Status FuseRingWorker::serve(const std::atomic<bool>& stopping) {
  Status status = ring_->offer(*first_);
  if (on_offered_ && status.ok() && (status = ring_->hand_over()).ok()) on_offered_();
  while (status.ok() && (!stopping || collecting_)) {
    status = serve_some();
    if (status.code() == EINTR) status = {};
  }
  queue_.stop();
  while (FuseRingEntry* const entry = queue_.wait()) (void)serve_alone(*entry);
  requests_.clear();
  if (status.ok()) (void)ring_->receive(false, requests_);  // hands the last answers over
  return had_request_ ? Status() : status;
}

std::chrono::milliseconds FuseRingWorker::hides_requests_for() const {
  const Clock::duration since = hides_since_;
  if (since == Clock::duration::zero()) return std::chrono::milliseconds(0);
  return std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now().time_since_epoch() - since);
}

Status FuseRingWorker::serve_some() {
  requests_.clear();
  if (collecting_) collecting_ = queue_.take_passed(requests_);
  if (!collecting_ && ring_->offered() == 0) return serve_what_was_left();
  const Status received = ring_->receive(!collecting_, requests_);
  if (requests_.empty()) return received;
  had_request_ = true;
  busy_ = true;
  cpu_.begin();
  sort();
  Status served = together_.empty() ? Status() : serve_together();
  for (FuseRingEntry* const entry : alone_) {
    if (collecting_) queue_.resign();
    collecting_ = false;
    if (served.ok()) served = serve_alone(*entry);
  }
  cpu_.end();
  busy_ = false;
  return received.ok() ? served : received;
}

Status FuseRingWorker::serve_what_was_left() {
  FuseRingEntry* const entry = queue_.wait();
  if (entry == nullptr) return Error(EINTR, "nothing was left");
  busy_ = true;
  cpu_.begin();
  const Status served = serve_alone(*entry);
  cpu_.end();
  busy_ = false;
  return served;
}

// Who serves which of the requests. What others serve is theirs at once.
void FuseRingWorker::sort() {
  together_.clear();
  alone_.clear();
  only_one_ = requests_.size() == 1 && ring_->offered() == 0;
  for (FuseRingEntry* const entry : requests_) {
    if (!JointRequests::suits(entry->message())) {
      part_with(*entry);
    } else if (collecting_ || (collecting_ = queue_.collect_or_pass(*entry))) {
      together_.push_back(entry);
    }
  }
}

void FuseRingWorker::part_with(FuseRingEntry& entry) {
  if (only_one_ || !queue_.leave(entry)) alone_.push_back(&entry);
}

Status FuseRingWorker::serve_together() {
  std::vector<FuseRingEntry*> declined;
  {
    JointRequests joint(filesystem_);
    std::vector<FuseRingEntry*> added;
    for (FuseRingEntry* const entry : together_) (joint.add(*entry, process_) ? added : declined).push_back(entry);
    if (ring_->offered() > 0) hides_since_ = Clock::now().time_since_epoch();
    const bool finished = joint.try_to_finish();
    hides_since_ = Clock::duration::zero();
    if (finished) {
      for (FuseRingEntry* const entry : added) {
        if (!joint.was_put_aside(*entry)) TRY(ring_->offer(*entry));
      }
    } else {
      declined = together_;
    }
  }
  for (FuseRingEntry* const entry : declined) part_with(*entry);
  return {};
}

Status FuseRingWorker::serve_alone(FuseRingEntry& entry) {
  if (!entry.is_answered()) {
    FusePlace::set_current(&entry);
    process_(entry.message());
    if (FusePlace::current() == nullptr) return {};  // it was put aside
    FusePlace::set_current(nullptr);
  }
  return ring_->offer(entry);
}

}  // namespace brickfs
