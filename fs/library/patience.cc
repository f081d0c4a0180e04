// SPDX-License-Identifier: Apache-2.0
#include "fs/library/patience.h"

#include "fs/library/call.h"
#include "fs/library/signals_blocked.h"

namespace {

thread_local brickfs_patience* of_this_thread = nullptr;

}  // namespace

namespace brickfs::library {

OperationContext context() {
  return {.interruption = of_this_thread != nullptr ? of_this_thread->interruption() : nullptr};
}

int interruption_code() { return of_this_thread != nullptr ? of_this_thread->code() : EINTR; }

}  // namespace brickfs::library

brickfs_patience::~brickfs_patience() {
  {
    brickfs::MutexLock lock(mutex_);
    ends_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

brickfs::Status brickfs_patience::begin(std::optional<std::chrono::milliseconds> timeout) {
  if (of_this_thread != nullptr) return brickfs::Error(EBUSY, "the thread has a patience");
  brickfs::MutexLock lock(mutex_);
  if (begun_) return brickfs::Error(EBUSY, "another thread's");
  if (timeout) {
    if (!thread_.joinable()) {
      const brickfs::library::SignalsBlocked blocked;
      thread_ = brickfs::Thread([this] { watch(); });
    }
    deadline_ = Clock::now() + *timeout;
    if (!asleep_until_ || *deadline_ < *asleep_until_) changed_.notify_all();
  }
  begun_ = true;
  of_this_thread = this;
  return {};
}

brickfs::Status brickfs_patience::end() {
  if (of_this_thread != this) return brickfs::Error(EINVAL, "not this thread's patience");
  of_this_thread = nullptr;
  brickfs::MutexLock lock(mutex_);
  begun_ = false;
  deadline_.reset();
  interruption_.clear();
  code_.store(ECANCELED);
  return {};
}

void brickfs_patience::cancel() {
  brickfs::MutexLock lock(mutex_);
  fire(ECANCELED);
}

bool brickfs_patience::begun() const {
  brickfs::MutexLock lock(mutex_);
  return begun_;
}

void brickfs_patience::fire(int code) {
  if (interruption_.raised()) return;  // the first reason counts
  code_.store(code);
  interruption_.raise();
}

void brickfs_patience::watch() {
  brickfs::MutexLock lock(mutex_);
  while (!ends_) {
    if (deadline_ && Clock::now() >= *deadline_) {
      fire(ETIMEDOUT);
      deadline_.reset();
    }
    asleep_until_ = deadline_;
    if (asleep_until_) {
      changed_.wait_until(lock, *asleep_until_);
    } else {
      changed_.wait(lock);
    }
  }
}

int brickfs_patience_new(brickfs_patience** patience) {
  using namespace brickfs::library;
  return guarded([&]() -> int {
    if (patience == nullptr) return -EFAULT;
    *patience = new brickfs_patience;
    return 0;
  });
}

int brickfs_patience_free(brickfs_patience* patience) {
  using namespace brickfs::library;
  return guarded([&]() -> int {
    if (patience != nullptr && patience->begun()) return -EBUSY;
    delete patience;
    return 0;
  });
}

int brickfs_patience_begin(brickfs_patience* patience, int timeout_ms) {
  using namespace brickfs::library;
  return guarded([&]() -> int {
    if (patience == nullptr) return -EFAULT;
    if (timeout_ms < 0) return code_of(patience->begin(std::nullopt));
    return code_of(patience->begin(std::chrono::milliseconds(timeout_ms)));
  });
}

int brickfs_patience_end(brickfs_patience* patience) {
  using namespace brickfs::library;
  return guarded([&]() -> int {
    if (patience == nullptr) return -EFAULT;
    return code_of(patience->end());
  });
}

int brickfs_patience_cancel(brickfs_patience* patience) {
  using namespace brickfs::library;
  return guarded([&]() -> int {
    if (patience == nullptr) return -EFAULT;
    patience->cancel();
    return 0;
  });
}
