// SPDX-License-Identifier: Apache-2.0
#include "fs/fuse/device_queue.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace brickfs {
namespace {

constexpr unsigned kUnaccompanied = 64;  // then one is enough
// The deputy looks so often; while all is well, half as often each time. Others do not wait longer for a request than
// both together.
constexpr std::chrono::milliseconds kTick{2};
constexpr std::chrono::milliseconds kLongestTick{8};
constexpr unsigned kCrowdedTicks =
    3;                                // then one is not enough. At a single one, what waits may be a forget, or a close
constexpr unsigned kQuietTicks = 10;  // without a request: then it sleeps until one comes
constexpr uint64_t kTurnsToCallAgain = 1024;
constexpr unsigned kJoining = 64;    // requests that could have been served together: then it is tried
constexpr unsigned kFoundNone = 64;  // then no longer

}  // namespace

FuseDeviceQueue::Seat::Seat(FuseDeviceQueue& queue) : queue_(queue), thread_(pthread_self()) {
  MutexLock lock(queue_.mutex_);
  queue_.seats_.push_back(this);
}

FuseDeviceQueue::Seat::~Seat() {
  if (serving_) --queue_.serving_;
  MutexLock lock(queue_.mutex_);
  std::erase(queue_.seats_, this);
  if (queue_.only_ == this) queue_.call_all();
}

ssize_t FuseDeviceQueue::receive(Seat& seat, std::span<std::byte> room) {
  if (seat.serving_) --serving_;
  seat.serving_ = false;
  end_turn(seat);
  while (!stopping_) {
    Seat* const only = only_;
    if (only == nullptr) return receive_as_any(seat, room);
    if (only == &seat) return receive_as_only(seat, room);
    park(seat);
  }
  errno = EINTR;
  return -1;
}

void FuseDeviceQueue::note(Seat& seat, bool joins) {
  if (!joins) {
    joining_ = 0;
    together_ = false;
  } else if (++joining_ >= kJoining && looks_ && only_ == nullptr) {
    together_ = true;
    try_to_be_the_only(seat);
  }
}

void FuseDeviceQueue::served_together(size_t requests) {
  found_none_ = requests == 1 ? found_none_ + 1 : 0;
  if (found_none_ < kFoundNone) return;
  found_none_ = 0;
  together_ = false;
}

void FuseDeviceQueue::pass_on(const Seat& seat) {
  if (only_ != &seat) return;
  MutexLock lock(mutex_);
  if (stopping_) return;
  if (parked_.empty()) return call_all();
  turn_ = (turn_ | 1) + 1;
  only_ = parked_.back();
  parked_.back()->called_.notify_one();
}

void FuseDeviceQueue::pass_on_what_waits(const Seat& seat) {
  if (comes()) pass_on(seat);
}

void FuseDeviceQueue::stop() {
  MutexLock lock(mutex_);
  stopping_ = true;
  call_all();
}

ssize_t FuseDeviceQueue::take(Seat& seat, std::span<std::byte> room) {
  seat.reading_ = true;
  const ssize_t received = ::read(device_, room.data(), room.size());
  seat.reading_ = false;
  if (received < 0) return received;
  unaccompanied_ = serving_++ == 0 ? unaccompanied_ + 1 : 0;
  seat.serving_ = true;
  return received;
}

ssize_t FuseDeviceQueue::receive_as_any(Seat& seat, std::span<std::byte> room) {
  const ssize_t received = take(seat, room);
  if (received >= 0 && looks_ && unaccompanied_ >= kUnaccompanied) try_to_be_the_only(seat);
  return received;
}

void FuseDeviceQueue::try_to_be_the_only(Seat& seat) {
  MutexLock lock(mutex_);
  if (only_ != nullptr || stopping_) return;
  turn_ = turn_ | 1;
  only_ = &seat;
  call_off_readers();
}

// To be parked.
void FuseDeviceQueue::call_off_readers() {
  for (const Seat* const seat : seats_) {
    if (seat->reading_) pthread_kill(seat->thread_, kWakeSignal);
  }
}

void FuseDeviceQueue::begin_turn(const Seat& seat) {
  if (only_ != &seat) return;
  turn_ = (turn_ + 1) | 1;
  if (!deputy_sleeps_) return;
  MutexLock lock(mutex_);
  deputy_wakes_.notify_one();
}

void FuseDeviceQueue::end_turn(const Seat& seat) {
  if (only_ == &seat) turn_ = (turn_ | 1) + 1;
}

bool FuseDeviceQueue::comes() const {
  pollfd device{device_, POLLIN, 0};
  return ::poll(&device, 1, 0) != 0;
}

ssize_t FuseDeviceQueue::receive_as_only(Seat& seat, std::span<std::byte> room) {
  seat.wait_.begin();
  (void)seat.wait_.look([this] { return comes() || stopping_; });
  const ssize_t received = take(seat, room);
  if (received < 0) return received;
  seat.wait_.end();
  begin_turn(seat);
  if (turn_ % kTurnsToCallAgain == 1) {  // a signal that comes just before a read() is lost
    MutexLock lock(mutex_);
    call_off_readers();
  }
  return received;
}

void FuseDeviceQueue::call_all() {
  only_ = nullptr;
  unaccompanied_ = 0;
  joining_ = 0;
  together_ = false;
  for (Seat* const seat : parked_) seat->called_.notify_one();
  deputy_wakes_.notify_one();
}

void FuseDeviceQueue::park(Seat& seat) {
  MutexLock lock(mutex_);
  if (only_ == nullptr || only_ == &seat || stopping_) return;
  if (has_deputy_) {
    parked_.push_back(&seat);
    seat.called_.wait(lock);
    std::erase(parked_, &seat);
    return;
  }
  has_deputy_ = true;
  stand_by(lock);
  has_deputy_ = false;
}

bool FuseDeviceQueue::is_one_enough(bool serves, unsigned crowded, unsigned unchanged) {
  if (serves && unchanged == kQuietTicks) return false;
  if (together_) return true;
  if (crowded == kCrowdedTicks && joining_ >= kJoining) return together_ = true;
  return crowded < kCrowdedTicks && (crowded == 0 || unchanged == 0);
}

// The deputy's watch, to its end. Calls all once others wait behind a request that takes long, or keep waiting, or a
// request takes very long. While nothing comes, it sleeps.
void FuseDeviceQueue::stand_by(MutexLock& lock) {
  unsigned crowded = 0;
  unsigned unchanged = 0;
  auto tick = kTick;
  uint64_t seen = turn_;
  while (only_ != nullptr && !stopping_) {
    if (unchanged >= kQuietTicks) {
      deputy_sleeps_ = true;
      if (turn_ == seen) deputy_wakes_.wait(lock);
      deputy_sleeps_ = false;
    } else {
      deputy_wakes_.wait_for(lock, tick);
    }
    const uint64_t now = turn_;
    const bool serves = now % 2 == 1;
    unchanged = now == seen ? unchanged + 1 : 0;
    crowded = serves && comes() ? crowded + 1 : 0;
    if (!is_one_enough(serves, crowded, unchanged)) return call_all();
    tick = crowded == 0 && unchanged == 0 ? std::min(2 * tick, kLongestTick) : kTick;
    seen = now;
  }
}

}  // namespace brickfs
