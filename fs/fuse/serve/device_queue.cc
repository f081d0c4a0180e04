// SPDX-License-Identifier: Apache-2.0
#include "fs/fuse/serve/device_queue.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>

namespace brickfs {
namespace {

constexpr std::chrono::milliseconds kTick{4};  // between two looks of the standby: at the same request twice is long
constexpr unsigned kQuietTicks = 10;           // without a request: then it sleeps until one comes

}  // namespace

FuseDeviceQueue::FuseDeviceQueue(int device) : device_(device), stopped_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

Result<FuseDeviceQueue::Turn> FuseDeviceQueue::wait_for_turn(Member& member) {
  if (receiver_ == &member) {
    turn_ = (turn_ | 1) + 1;
    if (!stopping_) return Turn{.passed = nullptr, .kept = true};
  }
  MutexLock lock(mutex_);
  while (!takes_turn(member)) {
    if (standby_ == nullptr) {
      stand_by(member, lock);
    } else {
      idle_.push_back(&member);
      member.called_.wait(lock);
      std::erase(idle_, &member);
    }
  }
  // It may have been woken to stand by, and have got something to do before it could.
  if (standby_ == nullptr && !idle_.empty()) idle_.back()->called_.notify_one();
  FuseRequest* const passed = std::exchange(member.passed_, nullptr);
  if (passed == nullptr && stopping_) return Error(EINTR, "it is stopped");
  return Turn{.passed = passed, .kept = false};
}

// Who is awake comes before who has been woken.
bool FuseDeviceQueue::takes_turn(const Member& member) {
  if (receiver_ == nullptr && member.passed_ == nullptr) receiver_ = &member;
  return is_called(member);
}

bool FuseDeviceQueue::is_called(const Member& member) const {
  return stopping_ || receiver_ == &member || member.passed_ != nullptr;
}

void FuseDeviceQueue::begin_turn(const Member& member) {
  if (receiver_ != &member) return;
  turn_ = (turn_ + 1) | 1;
  if (!standby_sleeps_) return;
  MutexLock lock(mutex_);
  if (standby_ != nullptr) standby_->called_.notify_one();
}

// Who was idle last, whose memory is in the caches.
FuseDeviceQueue::Member* FuseDeviceQueue::take_idle() {
  if (idle_.empty()) return std::exchange(standby_, nullptr);
  Member* const member = idle_.back();
  idle_.pop_back();
  return member;
}

void FuseDeviceQueue::hand_over(const Member& member) {
  if (receiver_ != &member) return;
  MutexLock lock(mutex_);
  if (receiver_ != &member) return;
  turn_ = (turn_ | 1) + 1;
  receiver_ = nullptr;
  if (Member* const next = take_idle()) next->called_.notify_one();
}

bool FuseDeviceQueue::pass(FuseRequest& request) {
  MutexLock lock(mutex_);
  if (stopping_) return false;
  Member* const next = take_idle();
  if (next == nullptr) return false;
  next->passed_ = &request;
  next->called_.notify_one();
  return true;
}

bool FuseDeviceQueue::has_more() const {
  pollfd device{device_, POLLIN, 0};
  return ::poll(&device, 1, 0) != 0;
}

void FuseDeviceQueue::wait_for_more() const {
  std::array<pollfd, 2> either = {pollfd{device_, POLLIN, 0}, pollfd{stopped_.get(), POLLIN, 0}};
  (void)::poll(either.data(), either.size(), -1);
}

void FuseDeviceQueue::stop() {
  MutexLock lock(mutex_);
  stopping_ = true;
  const uint64_t one = 1;
  (void)!::write(stopped_.get(), &one, sizeof(one));
  for (Member* const member : idle_) member->called_.notify_one();
  if (standby_ != nullptr) standby_->called_.notify_one();
}

// Until it is called. Becomes the receiver once that one is at the same request for a tick or two and others wait
// behind it.
void FuseDeviceQueue::stand_by(Member& member, MutexLock& lock) {
  standby_ = &member;
  unsigned quiet = 0;
  for (uint64_t seen = turn_; !is_called(member) && standby_ == &member && receiver_ != nullptr;) {
    const bool serves = seen % 2 == 1;
    if (!serves && quiet >= kQuietTicks) {
      standby_sleeps_ = true;
      if (turn_ == seen) member.called_.wait(lock);
      standby_sleeps_ = false;
      quiet = 0;
    } else {
      member.called_.wait_for(lock, kTick);
    }
    const uint64_t now = turn_;
    quiet = now == seen ? quiet + 1 : 0;
    if (now == seen && serves && !is_called(member) && has_more()) {
      turn_ = (turn_ | 1) + 1;
      receiver_ = &member;
    }
    seen = now;
  }
  if (standby_ == &member) standby_ = nullptr;
  if (standby_ == nullptr && !idle_.empty()) idle_.back()->called_.notify_one();  // to be the standby
}

}  // namespace brickfs
