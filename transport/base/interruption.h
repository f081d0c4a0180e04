// SPDX-License-Identifier: Apache-2.0
// That whoever asked for an operation wants it to end, done or not: a signal has come for him. The thread that serves
// it looks wherever it waits, and answers EINTR. What nobody asked for (background threads) has none. Named by a
// pointer; null: there is none.
//
// Threads: any.
#pragma once

#include <atomic>
#include <cerrno>
#include <chrono>

#include "transport/base/mutex.h"
#include "transport/base/result.h"

namespace brickfs {

class Interruption {
 public:
  Interruption() = default;
  Interruption(const Interruption&) = delete;
  Interruption& operator=(const Interruption&) = delete;

  void raise() { raised_.store(true, std::memory_order_relaxed); }
  // For the next operation.
  void clear() { raised_.store(false, std::memory_order_relaxed); }
  bool raised() const { return raised_.load(std::memory_order_relaxed); }
  // EINTR, or success.
  static Status check(const Interruption* by) {
    if (by != nullptr && by->raised()) return Error(EINTR, "interrupted");
    return {};
  }

 private:
  std::atomic<bool> raised_{false};
};

// As CondVar::wait(), but returns now and then to look. EINTR.
inline Status wait_interruptibly(CondVar& changed, MutexLock& lock, const Interruption* by) {
  constexpr std::chrono::milliseconds kLook{50};
  if (by == nullptr) {
    changed.wait(lock);
    return {};
  }
  TRY(Interruption::check(by));
  changed.wait_for(lock, kLook);
  return {};
}

}  // namespace brickfs
