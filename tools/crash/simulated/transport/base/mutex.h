// SPDX-License-Identifier: Apache-2.0
// In brickfs-crash in the place of transport/base/mutex.h: the same classes for simulated threads.
#pragma once

#include <chrono>
#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "tools/crash/fibers.h"

namespace brickfs {

class ABSL_LOCKABLE Mutex {
 public:
  void lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() {
    while (held_) free_.wait();
    held_ = true;
  }
  bool try_lock() ABSL_EXCLUSIVE_TRYLOCK_FUNCTION(true) {
    if (held_) return false;
    held_ = true;
    return true;
  }
  void unlock() ABSL_UNLOCK_FUNCTION() {
    give_up();
    fibers::maybe_yield();
  }

 private:
  friend class CondVar;
  void give_up() {
    held_ = false;
    free_.wake_one();
  }

  bool held_ = false;
  fibers::WaitList free_;
};

class ABSL_LOCKABLE SharedMutex {
 public:
  void lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() {
    while (held_ || shares_ > 0) free_.wait();
    held_ = true;
  }
  void unlock() ABSL_UNLOCK_FUNCTION() {
    held_ = false;
    free_.wake_all();
  }
  void lock_shared() ABSL_SHARED_LOCK_FUNCTION() {
    while (held_) free_.wait();
    ++shares_;
  }
  void unlock_shared() ABSL_UNLOCK_FUNCTION() {
    if (--shares_ == 0) free_.wake_all();
  }

 private:
  bool held_ = false;
  uint64_t shares_ = 0;
  fibers::WaitList free_;
};

class ABSL_SCOPED_LOCKABLE MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) ABSL_EXCLUSIVE_LOCK_FUNCTION(mutex) : mutex_(mutex) { lock(); }
  ~MutexLock() ABSL_UNLOCK_FUNCTION() {
    if (holds_) mutex_.unlock();
  }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;
  void unlock() ABSL_UNLOCK_FUNCTION() {
    holds_ = false;
    mutex_.unlock();
  }
  void lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() {
    mutex_.lock();
    holds_ = true;
  }

 private:
  friend class CondVar;
  Mutex& mutex_;
  bool holds_ = false;
};

class ABSL_SCOPED_LOCKABLE ExclusiveLock {
 public:
  explicit ExclusiveLock(SharedMutex& mutex) ABSL_EXCLUSIVE_LOCK_FUNCTION(mutex) : mutex_(mutex) { mutex_.lock(); }
  ~ExclusiveLock() ABSL_UNLOCK_FUNCTION() { mutex_.unlock(); }
  ExclusiveLock(const ExclusiveLock&) = delete;
  ExclusiveLock& operator=(const ExclusiveLock&) = delete;

 private:
  SharedMutex& mutex_;
};

class ABSL_SCOPED_LOCKABLE SharedLock {
 public:
  explicit SharedLock(SharedMutex& mutex) ABSL_SHARED_LOCK_FUNCTION(mutex) : mutex_(mutex) { mutex_.lock_shared(); }
  ~SharedLock() ABSL_UNLOCK_FUNCTION() { mutex_.unlock_shared(); }
  SharedLock(const SharedLock&) = delete;
  SharedLock& operator=(const SharedLock&) = delete;

 private:
  SharedMutex& mutex_;
};

class CondVar {
 public:
  void wait(MutexLock& lock) { wait_until(lock, kNever); }
  // False when `deadline` has passed.
  bool wait_until(MutexLock& lock, std::chrono::steady_clock::time_point deadline) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    lock.mutex_.give_up();
    const bool in_time = waiting_.wait(deadline == kNever ? fibers::kForEver : deadline.time_since_epoch());
    lock.mutex_.lock();
    return in_time;
  }
  bool wait_for(MutexLock& lock, std::chrono::milliseconds timeout) {
    return wait_until(lock, std::chrono::steady_clock::now() + timeout);
  }
  void notify_one() { waiting_.wake_one(); }
  void notify_all() { waiting_.wake_all(); }

 private:
  static constexpr std::chrono::steady_clock::time_point kNever = std::chrono::steady_clock::time_point::max();
  fibers::WaitList waiting_;
};

}  // namespace brickfs
