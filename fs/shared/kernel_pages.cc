// SPDX-License-Identifier: Apache-2.0
#include "fs/shared/kernel_pages.h"

#include <chrono>
#include <cstdint>

namespace brickfs::shared {
namespace {

// Within what is between the end of a member's leases and when others no longer wait for it (leases.cc).
constexpr std::chrono::milliseconds kLookAtLeases{100};

}  // namespace

KernelPages::KernelPages(OwnKernel& kernel, const Held& held, std::vector<Ino> files)
    : kernel_(kernel), held_(held), files_(files.begin(), files.end()) {
  thread_ = std::thread([this] { run(); });
}

std::vector<Ino> KernelPages::files() const {
  MutexLock lock(mutex_);
  return {files_.begin(), files_.end()};
}

void KernelPages::recall(Ino ino) {
  {
    MutexLock lock(mutex_);
    if (!files_.contains(ino)) return;
  }
  drop(ino);
}

void KernelPages::drop(Ino ino) {
  {
    MutexLock lock(mutex_);
    if (stopping_) return;
    ++dropping_;
  }
  kernel_.drop({ino, 0, UINT64_MAX}, &ending_);
  MutexLock lock(mutex_);
  --dropping_;
  changed_.notify_all();
}

void KernelPages::drop_soon() {
  MutexLock lock(mutex_);
  drops_all_ = true;
  changed_.notify_all();
}

void KernelPages::forget(Ino ino) {
  MutexLock lock(mutex_);
  files_.erase(ino);
}

void KernelPages::stop() {
  ending_.raise();
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
    while (dropping_ > 0) changed_.wait(lock);
  }
  if (thread_.joinable()) thread_.join();
}

// As long as nothing is relied on pages may come back with each read, so they go again and again.
void KernelPages::run() {
  bool was_valid = true;
  while (true) {
    bool drops_all = false;
    {
      MutexLock lock(mutex_);
      if (!stopping_ && !drops_all_) changed_.wait_for(lock, kLookAtLeases);
      if (stopping_) return;
      drops_all = std::exchange(drops_all_, false);
    }
    const bool is_valid = held_.is_valid();
    if (drops_all || !is_valid || !was_valid)
      for (const Ino ino : files()) drop(ino);
    was_valid = is_valid;
  }
}

}  // namespace brickfs::shared
