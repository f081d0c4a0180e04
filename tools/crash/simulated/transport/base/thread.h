// SPDX-License-Identifier: Apache-2.0
// In brickfs-crash in the place of transport/base/thread.h: a thread that only this program knows of.
#pragma once

#include <functional>
#include <utility>

#include "tools/crash/fibers.h"
#include "transport/base/check.h"

namespace brickfs {

class Thread {
 public:
  Thread() = default;
  explicit Thread(std::function<void()> body) : fiber_(fibers::start(std::move(body))) {}
  Thread(Thread&& from) noexcept : fiber_(std::exchange(from.fiber_, nullptr)) {}
  Thread& operator=(Thread&& from) noexcept {
    CHECK(fiber_ == nullptr);
    fiber_ = std::exchange(from.fiber_, nullptr);
    return *this;
  }
  ~Thread() { CHECK(fiber_ == nullptr); }

  void swap(Thread& other) noexcept { std::swap(fiber_, other.fiber_); }
  bool joinable() const { return fiber_ != nullptr; }
  void join() { fibers::join(std::exchange(fiber_, nullptr)); }

 private:
  fibers::Fiber* fiber_ = nullptr;
};

}  // namespace brickfs
