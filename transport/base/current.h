// SPDX-License-Identifier: Apache-2.0
// Something that is there for a while, until another takes its place: everybody finds it without a lock, and it goes
// when nobody is at it any more.
//
// Threads: Guard from any; the rest exclude each other.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <thread>
#include <utility>

#include "transport/base/guard.h"

namespace brickfs {

template <typename T, typename Owner = std::unique_ptr<T>>
class Current {
 public:
  // What is there stays as long as this does.
  class Guard {
   public:
    explicit Guard(const Current& current)
        : guards_(current.guards_), place_(guards_.enter()), found_(current.found_.load()) {}
    ~Guard() { guards_.leave(place_); }
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;
    explicit operator bool() const { return found_ != nullptr; }
    T* operator->() const { return found_; }
    T& operator*() const { return *found_; }

   private:
    GuardCount& guards_;
    const size_t place_;
    T* const found_;
  };

  // Null: nothing is there.
  T* get() const { return owner_.get(); }
  // Precondition: nothing is there.
  void put(Owner next) {
    owner_ = std::move(next);
    found_.store(owner_.get());
  }
  // Nobody finds it from now on; those who are at it still are.
  void hide() { found_.store(nullptr); }
  // Hides it and waits for those who are at it, who must be on their way out.
  void take_away() {
    constexpr std::chrono::microseconds kPause{100};
    hide();
    while (!guards_.none()) std::this_thread::sleep_for(kPause);
    owner_ = nullptr;
  }

 private:
  Owner owner_;
  std::atomic<T*> found_{nullptr};  // owner_'s, for Guard
  mutable GuardCount guards_;
};

}  // namespace brickfs
