// SPDX-License-Identifier: Apache-2.0
// Somebody who sleeps is woken up only when this goes, if there is a reason by then: so whoever waits for this thread
// need not wait for that, too.
//
// Threads: one.
#pragma once

#include <utility>

namespace brickfs {

class WakeLater {
 public:
  class Sleeper {  // outlives it
   public:
    virtual void wake() = 0;

   protected:
    ~Sleeper() = default;
  };

  explicit WakeLater(Sleeper* sleeper) : sleeper_(sleeper) {}  // null: there is never a reason
  ~WakeLater() { wake(); }
  WakeLater(const WakeLater&) = delete;
  WakeLater& operator=(const WakeLater&) = delete;

  void owe() { owed_ = true; }
  // What is owed, now.
  void wake() {
    if (std::exchange(owed_, false)) sleeper_->wake();
  }

 private:
  Sleeper* const sleeper_;
  bool owed_ = false;
};

}  // namespace brickfs
