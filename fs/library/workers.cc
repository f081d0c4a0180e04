// SPDX-License-Identifier: Apache-2.0
#include "fs/library/workers.h"

#include <exception>
#include <new>
#include <utility>

#include "fs/library/signals_blocked.h"

namespace brickfs::library {

Workers::~Workers() {
  std::vector<Thread> threads;
  {
    MutexLock lock(mutex_);
    ends_ = true;
    changed_.notify_all();
    threads.swap(threads_);
  }
  for (Thread& thread : threads) thread.join();
}

bool Workers::run(std::function<void()> task) noexcept {
  MutexLock lock(mutex_);
  const bool wants_thread = idle_ <= tasks_.size() && threads_.size() < most_;
  if (wants_thread && !start_one() && threads_.empty()) return false;
  try {
    tasks_.push_back(std::move(task));
  } catch (const std::bad_alloc&) {
    return false;
  }
  changed_.notify_one();
  return true;
}

bool Workers::start_one() {
  const SignalsBlocked blocked;
  try {
    threads_.emplace_back([this] { serve(); });
  } catch (const std::exception&) {
    return false;
  }
  return true;
}

void Workers::serve() {
  MutexLock lock(mutex_);
  for (;;) {
    if (!tasks_.empty()) {
      const std::function<void()> task = std::move(tasks_.front());
      tasks_.pop_front();
      lock.unlock();
      task();
      lock.lock();
    } else if (ends_) {
      return;
    } else {
      ++idle_;
      changed_.wait(lock);
      --idle_;
    }
  }
}

}  // namespace brickfs::library
