// SPDX-License-Identifier: Apache-2.0
// What many are within at once, and one may close: he waits until nobody is within, and who comes waits until he is
// done, or is interrupted, or does not wait. Passing an open gate takes no lock.
//
// Threads: any. Who is within must not close, nor enter again.
#pragma once

#include <atomic>
#include <cerrno>
#include <mutex>

#include "transport/base/guard.h"
#include "transport/base/interruption.h"
#include "transport/base/mutex.h"
#include "transport/base/result.h"

namespace brickfs {

class Gate {
 public:
  class Pass {
   public:
    explicit Pass(Gate& gate) : Pass(gate, nullptr) {}
    // EINTR in entered(): not within.
    Pass(Gate& gate, const Interruption* by) : gate_(gate), entered_(gate.enter(by, place_)) {}
    // EAGAIN in entered(): it is closed.
    Pass(Gate& gate, std::try_to_lock_t) : gate_(gate), entered_(gate.try_enter(place_)) {}
    ~Pass() {
      if (entered_.ok()) gate_.leave(place_);
    }
    Pass(const Pass&) = delete;
    Pass& operator=(const Pass&) = delete;

    const Status& entered() const { return entered_; }

   private:
    Gate& gate_;
    size_t place_ = 0;
    const Status entered_;
  };

  // Of those who are within all the time that this takes, none is overlooked.
  bool is_empty() const { return guards_.none(); }

  // While it lives the gate is closed, and nobody is within.
  class Closed {
   public:
    explicit Closed(Gate& gate) : gate_(gate) { gate_.close(); }
    ~Closed() { gate_.open(); }
    Closed(const Closed&) = delete;
    Closed& operator=(const Closed&) = delete;

   private:
    Gate& gate_;
  };

 private:
  Status try_enter(size_t& place) {
    place = guards_.enter();
    if (!closed_.load()) return {};
    leave(place);
    return Error(EAGAIN, "a closed gate");
  }
  Status enter(const Interruption* by, size_t& place) {
    while (!try_enter(place).ok()) {
      MutexLock lock(mutex_);
      while (closed_.load()) TRY(wait_interruptibly(changed_, lock, by));
    }
    return {};
  }
  void leave(size_t place) {
    guards_.leave(place);
    if (!closed_.load()) return;
    MutexLock lock(mutex_);
    changed_.notify_all();
  }
  void close() {
    MutexLock lock(mutex_);
    while (closed_.load()) changed_.wait(lock);
    closed_.store(true);
    while (!guards_.none()) changed_.wait(lock);
  }
  void open() {
    MutexLock lock(mutex_);
    closed_.store(false);
    changed_.notify_all();
  }

  GuardCount guards_;
  std::atomic<bool> closed_{false};
  Mutex mutex_;
  CondVar changed_;
};

}  // namespace brickfs
