// SPDX-License-Identifier: Apache-2.0
#include "fs/fuse/cache/page_dropper.h"

#include <unistd.h>

#include <utility>

#include "fs/fuse/interrupt/thread_status.h"

namespace brickfs {

PageDropper::~PageDropper() { stop(); }

bool PageDropper::drop(Ino ino, Range first, Range second, Asker asker, Answer answer) {
  MutexLock lock(mutex_);
  if (stopping_) return false;
  if (!dropping_.joinable()) {
    dropping_ = std::thread([this] { run(); });
    watching_ = std::thread([this] { watch(); });
  }
  ++pending_;
  drops_.push_back({ino, first, second, asker, Clock::now(), std::move(answer)});
  if (drops_.size() == 1) wanted_.notify_all();
  return true;
}

void PageDropper::run() {
  MutexLock lock(mutex_);
  for (;;) {
    while (drops_.empty() && !stopping_) wanted_.wait(lock);
    if (drops_.empty()) return;
    const Ino ino = drops_.front().ino;
    const Range second = drops_.front().second;
    give_notice(ino, drops_.front().first);
    answer_first();
    give_notice(ino, second);
    drops_.pop_front();
    --pending_;
  }
}

void PageDropper::give_notice(Ino ino, Range range) {
  if (range.length == 0) return;
  noticing_ = static_cast<uint32_t>(::gettid());
  ++notices_;
  mutex_.unlock();
  notice_(ino, range.offset, range.length);
  mutex_.lock();
  noticing_ = 0;
}

void PageDropper::answer_first() {
  const Answer answer = std::exchange(drops_.front().answer, nullptr);
  if (!answer) return;
  mutex_.unlock();
  answer(true);
  mutex_.lock();
}

// Wakes up now and then as long as there is anything, not with every drop.
void PageDropper::watch() {
  MutexLock lock(mutex_);
  uint64_t held_up = 0;  // the notice that was, when this looked last
  for (;;) {
    while (drops_.empty() && !stopping_) wanted_.wait(lock);
    if (drops_.empty()) return;
    wanted_.wait_for(lock, kPatience);
    const uint64_t before = std::exchange(held_up, is_held_up() ? notices_ : 0);
    if (held_up == 0 || held_up != before) continue;
    const auto overdue = take_overdue();
    lock.unlock();
    for (const auto& answer : overdue) answer(false);
    lock.lock();
  }
}

bool PageDropper::is_held_up() const {
  return noticing_ != 0 && !status_field(thread_status(noticing_), "State").starts_with('R');
}

std::vector<PageDropper::Answer> PageDropper::take_overdue() {
  const Clock::time_point begun = Clock::now() - kPatience;
  std::vector<Answer> overdue;
  for (Drop& drop : drops_) {
    if (drop.answer && drop.asker == Asker::kKernel && drop.begun <= begun)
      overdue.push_back(std::exchange(drop.answer, nullptr));
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
