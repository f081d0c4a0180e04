// SPDX-License-Identifier: Apache-2.0
#include "fs/fuse/serve/ring_source.h"

#include <cerrno>
#include <utility>

namespace brickfs {

Status FuseRingSource::begin() {
  begun_ = true;
  TRY(ring_->offer(*first_));
  if (!on_offered_) return {};
  TRY(ring_->hand_over());
  on_offered_();
  return {};
}

// An error before the first request: the kernel will have no entries.
Status FuseRingSource::receive(std::vector<FuseRequest*>& requests) {
  if (std::exchange(serving_, false)) cpu_.end();
  if (!begun_) TRY(begin());
  const Status received = receive_some(requests);
  if (!requests.empty()) {
    had_request_ = serving_ = true;
    cpu_.begin();
  }
  return !received.ok() && received.code() != EINTR && had_request_ ? Error(ENODEV, "FUSE over io_uring") : received;
}

// Whoever has no entries serves what others have left. What the collector gets from others is served next, not as soon
// as possible: so its entries come to be many.
Status FuseRingSource::receive_some(std::vector<FuseRequest*>& requests) {
  received_.clear();
  if (collecting_) collecting_ = queue_.take_passed(received_);
  if (!collecting_ && ring_->offered() == 0) {
    FuseRingRequest* const left = queue_.wait();
    if (left == nullptr) return Error(EINTR, "nothing was left");
    requests.push_back(left);
    return {};
  }
  const Status status = ring_->receive(!collecting_, received_);
  for (FuseRingRequest* const request : received_) {
    if (request->is_small() && !collecting_ && !(collecting_ = queue_.collect_or_pass(*request))) continue;
    requests.push_back(request);
  }
  return status;
}

bool FuseRingSource::pass(FuseRequest& request) {
  request.serve_alone();
  return queue_.leave(static_cast<FuseRingRequest&>(request));
}

void FuseRingSource::begin_alone(const FuseRequest&) {
  if (std::exchange(collecting_, false)) queue_.resign();
}

Status FuseRingSource::give_back(FuseRequest& request) { return ring_->offer(static_cast<FuseRingRequest&>(request)); }

FuseRequest* FuseRingSource::last() {
  queue_.stop();
  return queue_.wait();
}

// Hands the last answers over.
void FuseRingSource::close() {
  if (std::exchange(serving_, false)) cpu_.end();
  received_.clear();
  (void)ring_->receive(false, received_);
}

}  // namespace brickfs
