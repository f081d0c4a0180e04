// SPDX-License-Identifier: Apache-2.0
#include "fs/fuse/serve/uring_source.h"

#include <pthread.h>
#include <sched.h>

#include <cerrno>
#include <utility>

namespace brickfs {

namespace {

constexpr unsigned kAloneBeforeReturn = 16;

}  // namespace

FuseCpuChoice::FuseCpuChoice(size_t cpu, std::atomic<unsigned>& serving) : cpu_(cpu), serving_(serving) {
  CPU_ZERO(&allowed_);
  CPU_ZERO(&chosen_);
  (void)pthread_getaffinity_np(pthread_self(), sizeof(allowed_), &allowed_);
}

void FuseCpuChoice::begin() {
  const bool alone = serving_.fetch_add(1) == 0;
  alone_ = alone ? alone_ + 1 : 0;
  if (!alone) {
    go(Place::kAnywhere);
  } else if (place_ == Place::kUnset || alone_ >= kAloneBeforeReturn) {
    go(Place::kOwnCpu);
  }
}

// Where the thread runs is not where it was put: somebody has put it there.
void FuseCpuChoice::look_for_others_choice() {
  cpu_set_t now;
  CPU_ZERO(&now);
  if (pthread_getaffinity_np(pthread_self(), sizeof(now), &now) != 0) return;
  if (place_ != Place::kUnset && !CPU_EQUAL(&now, &chosen_)) allowed_ = now;
}

// Best effort: the CPU may be offline, or not for this process.
void FuseCpuChoice::go(Place place) {
  if (place == place_) return;
  look_for_others_choice();
  place_ = place;
  cpu_set_t own;
  CPU_ZERO(&own);
  if (cpu_ < CPU_SETSIZE) CPU_SET(cpu_, &own);
  CPU_AND(&own, &own, &allowed_);
  const cpu_set_t& wanted = place == Place::kOwnCpu && CPU_COUNT(&own) > 0 ? own : allowed_;
  (void)pthread_setaffinity_np(pthread_self(), sizeof(wanted), &wanted);
  (void)pthread_getaffinity_np(pthread_self(), sizeof(chosen_), &chosen_);
}

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
