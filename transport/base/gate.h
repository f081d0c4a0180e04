// SPDX-License-Identifier: Apache-2.0
// What many are within at once, and one may close: he waits until nobody is within, and who comes waits until he is
// done. Passing an open gate takes no lock.
//
// Threads: any. Who is within must not close, nor enter again.
#pragma once

#include <atomic>

#include "transport/base/mutex.h"
#include "transport/base/stays.h"

namespace brickfs {

class Gate {
 public:
  class Pass {
   public:
    explicit Pass(Gate& gate) : gate_(gate), place_(gate.enter()) {}
    ~Pass() { gate_.leave(place_); }
    Pass(const Pass&) = delete;
    Pass& operator=(const Pass&) = delete;

   private:
    Gate& gate_;
    const size_t place_;
  };

  // Of those who are within all the time that this takes, none is overlooked.
  bool is_empty() const { return stays_.none(); }

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
  size_t enter() {
    for (;;) {
      const size_t place = stays_.enter();
      if (!closed_.load()) return place;
      leave(place);
      MutexLock lock(mutex_);
      while (closed_.load()) changed_.wait(lock);
    }
  }
  void leave(size_t place) {
    stays_.leave(place);
    if (!closed_.load()) return;
    MutexLock lock(mutex_);
    changed_.notify_all();
  }
  void close() {
    MutexLock lock(mutex_);
    while (closed_.load()) changed_.wait(lock);
    closed_.store(true);
    while (!stays_.none()) changed_.wait(lock);
  }
  void open() {
    MutexLock lock(mutex_);
    closed_.store(false);
    changed_.notify_all();
  }

  Stays stays_;
  std::atomic<bool> closed_{false};
  Mutex mutex_;
  CondVar changed_;
};

}  // namespace brickfs
