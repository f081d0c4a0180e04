// SPDX-License-Identifier: Apache-2.0
#include "fs/fuse/page_dropper.h"

#include <utility>

namespace brickfs {

PageDropper::~PageDropper() { stop(); }

bool PageDropper::drop(Ino ino, uint64_t offset, uint64_t length, std::function<void()> answer) {
  MutexLock lock(mutex_);
  if (stopping_) return false;
  if (!dropping_.joinable()) {
    dropping_ = std::thread([this] { run(); });
    watching_ = std::thread([this] { watch(); });
  }
  ++pending_;
  drops_.push_back({ino, offset, length, Clock::now() + kPatience, std::move(answer)});
  if (drops_.size() == 1) wanted_.notify_all();
  return true;
}

void PageDropper::run() {
  MutexLock lock(mutex_);
  for (;;) {
    while (drops_.empty() && !stopping_) wanted_.wait(lock);
    if (drops_.empty()) return;
    const Ino ino = drops_.front().ino;
    const uint64_t offset = drops_.front().offset;
    const uint64_t length = drops_.front().length;
    lock.unlock();
    if (length > 0) notice_(ino, offset, length);
    lock.lock();
    const std::function<void()> answer = std::exchange(drops_.front().answer, nullptr);
    drops_.pop_front();
    --pending_;
    lock.unlock();
    if (answer) answer();
    lock.lock();
  }
}

// Wakes up now and then as long as there is anything, not with every drop.
void PageDropper::watch() {
  MutexLock lock(mutex_);
  for (;;) {
    while (drops_.empty() && !stopping_) wanted_.wait(lock);
    if (drops_.empty()) return;
    wanted_.wait_for(lock, kPatience);
    const auto overdue = take_overdue();
    lock.unlock();
    for (const auto& answer : overdue) answer();
    lock.lock();
  }
}

std::vector<std::function<void()>> PageDropper::take_overdue() {
  const Clock::time_point now = Clock::now();
  std::vector<std::function<void()>> overdue;
  for (Drop& drop : drops_) {
    if (drop.overdue > now) break;
    if (drop.answer) overdue.push_back(std::exchange(drop.answer, nullptr));
  }
  return overdue;
}

void PageDropper::stop() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    wanted_.notify_all();
  }
  if (dropping_.joinable()) dropping_.join();
  if (watching_.joinable()) watching_.join();
}

}  // namespace brickfs
