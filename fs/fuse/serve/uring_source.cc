// SPDX-License-Identifier: Apache-2.0
#include "fs/fuse/serve/uring_source.h"

#include <cerrno>
#include <utility>

namespace brickfs {

Status FuseUringSource::begin() {
  begun_ = true;
  TRY(uring_->offer(*first_));
  if (!on_offered_) return {};
  TRY(uring_->hand_over());
  on_offered_();
  return {};
}

// An error before the first request: the kernel will have no entries.
Status FuseUringSource::receive(std::vector<FuseRequest*>& requests) {
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
Status FuseUringSource::receive_some(std::vector<FuseRequest*>& requests) {
  received_.clear();
  if (collecting_) collecting_ = queue_.take_passed(received_);
  if (!collecting_ && uring_->offered() == 0) {
    FuseUringRequest* const left = queue_.wait();
    if (left == nullptr) return Error(EINTR, "nothing was left");
    requests.push_back(left);
    return {};
  }
  const Status status = uring_->receive(!collecting_, received_);
  for (FuseUringRequest* const request : received_) {
    if (request->is_small() && !collecting_ && !(collecting_ = queue_.collect_or_pass(*request))) continue;
    requests.push_back(request);
  }
  return status;
}

bool FuseUringSource::pass(FuseRequest& request) {
  request.serve_alone();
  return queue_.leave(static_cast<FuseUringRequest&>(request));
}

void FuseUringSource::begin_alone(const FuseRequest&) {
  if (std::exchange(collecting_, false)) queue_.resign();
}

Status FuseUringSource::give_back(FuseRequest& request) {
  return uring_->offer(static_cast<FuseUringRequest&>(request));
}

FuseRequest* FuseUringSource::last() {
  queue_.stop();
  return queue_.wait();
}

// Hands the last answers over.
void FuseUringSource::close() {
  if (std::exchange(serving_, false)) cpu_.end();
  received_.clear();
  (void)uring_->receive(false, received_);
}

}  // namespace brickfs
