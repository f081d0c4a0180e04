// SPDX-License-Identifier: Apache-2.0
// How threads wait for completions.
#include <poll.h>

#include <algorithm>

#include "transport/verbs/data_path.h"

namespace brickfs::verbs {
namespace {

// A small transfer on a fast network is done within this; going to sleep and waking up costs about as much.
constexpr std::chrono::microseconds kSpin{100};
constexpr int kPollsPerLook = 32;  // at the clock, which may cost more than many of them

thread_local const DataPath* watcher = nullptr;  // of which this thread has the watch

}  // namespace

bool DataPath::Goal::reached() const {
  if (batch != nullptr) return batch->complete();
  return unused != nullptr && unused->users.load(std::memory_order_acquire) == 0;
}

void DataPath::wait(const Batch& batch) { wait_for({&batch, nullptr}); }
void DataPath::wait_unused(const Mapping& mapping) { wait_for({nullptr, &mapping}); }

void DataPath::wait_for(const Goal& goal) {
  poll_all();
  if (goal.reached() || spin(goal)) return;
  MutexLock lock(mutex_);
  while (!goal.reached()) {
    if (watched_.load()) {
      parked_.fetch_add(1);
      if (!goal.reached()) changed_.wait(lock);
      parked_.fetch_sub(1);
    } else {
      hold_watch(goal, lock);
    }
  }
  if (!watched_.load() && callbacks_.load() > 0) background_.notify_one();
}

void DataPath::hold_watch(const Goal& goal, MutexLock& lock) {
  watched_.store(true);
  parked_.fetch_add(0);  // see wake_waiters()
  lock.unlock();
  watcher = this;
  watch(goal);
  watcher = nullptr;
  lock.lock();
  watched_.store(false);
  changed_.notify_all();
}

bool DataPath::spin(const Goal& goal) {
  if (!spins_) return false;
  auto end = std::chrono::steady_clock::time_point::max();
  while (true) {
    for (int i = 0; i < kPollsPerLook; ++i) {
      poll_all();
      if (goal.reached()) return true;
    }
    const auto now = std::chrono::steady_clock::now();
    if (now >= end) return false;
    end = std::min(end, now + kSpin);
  }
}

// Sleeps until something happens, once. Precondition: the caller has the watch.
void DataPath::watch(const Goal& goal) {
  for (size_t number = 0; number < lanes_.size(); ++number) {
    Lane* const lane = lanes_[number].load(std::memory_order_acquire);
    if (lane == nullptr || armed_[number] == lane) continue;
    lane->arm();
    armed_[number] = lane;
  }
  poll_all();  // what came before the notification was asked for
  if (goal.reached()) return;
  std::vector<pollfd> watched = {pollfd{wake_.get(), POLLIN, 0}};
  {
    MutexLock lock(mutex_);
    if (stopping_) return;
    for (const ibv_comp_channel* channel : channels_) watched.push_back({channel->fd, POLLIN, 0});
  }
  constexpr int kPatienceMs = 1000;
  ::poll(watched.data(), watched.size(), kPatienceMs);
  uint64_t count = 0;
  if (watched[0].revents != 0) [[maybe_unused]] const ssize_t got = ::read(wake_.get(), &count, sizeof(count));
  take_events();
  poll_all();
}

void DataPath::take_events() {
  std::vector<ibv_comp_channel*> channels;
  {
    MutexLock lock(mutex_);
    channels = channels_;
  }
  for (ibv_comp_channel* const channel : channels) {
    ibv_cq* queue = nullptr;
    void* context = nullptr;
    while (ibv_get_cq_event(channel, &queue, &context) == 0) {
      ibv_ack_cq_events(queue, 1);
      for (const Lane*& armed : armed_) {
        if (armed != nullptr && armed->queue() == queue) armed = nullptr;
      }
    }
  }
}

// After something was completed. Whoever is about to sleep has said so, and changed parked_, before it looked whether its
// goal was reached. Of two changes of one variable the later sees what stood before the earlier: either it finds its goal
// reached, or it is found here.
void DataPath::wake_waiters() {
  const bool parked = parked_.fetch_add(0) > 0;
  if (watched_.load() && watcher != this) {
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(wake_.get(), &one, sizeof(one));
  }
  if (!parked) return;
  MutexLock lock(mutex_);
  changed_.notify_all();
}

void DataPath::run_background() {
  MutexLock lock(mutex_);
  while (!stopping_) {
    if (callbacks_.load() == 0 || watched_.load()) {
      background_.wait(lock);
      continue;
    }
    hold_watch({}, lock);
  }
}

}  // namespace brickfs::verbs
