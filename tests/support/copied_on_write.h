// SPDX-License-Identifier: Apache-2.0
// A value with several owners, each of whom copies it before changing it unless it is the only one. As std::shared_ptr,
// but who finds itself the only owner also sees all that the former ones did (use_count() does not promise that), so
// owners may be in different threads. Threads: each owner in one at a time.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

namespace brickfs {

template <typename T>
class CopiedOnWrite {
 public:
  CopiedOnWrite() = default;  // of nothing
  CopiedOnWrite(const CopiedOnWrite& other) : held_(other.held_) {
    if (held_ != nullptr) held_->owners.fetch_add(1, std::memory_order_relaxed);
  }
  CopiedOnWrite(CopiedOnWrite&& other) noexcept : held_(std::exchange(other.held_, nullptr)) {}
  CopiedOnWrite& operator=(CopiedOnWrite other) noexcept {
    std::swap(held_, other.held_);
    return *this;
  }
  ~CopiedOnWrite() {
    if (held_ != nullptr && held_->owners.fetch_sub(1, std::memory_order_acq_rel) == 1) delete held_;
  }
  static CopiedOnWrite make() {
    CopiedOnWrite made;
    made.held_ = new Held;
    return made;
  }

  explicit operator bool() const { return held_ != nullptr; }
  bool operator==(const CopiedOnWrite& other) const { return held_ == other.held_; }
  const T& operator*() const { return held_->value; }
  const T* operator->() const { return &held_->value; }
  // To be changed. Precondition: there is a value.
  T& own() {
    if (held_->owners.load(std::memory_order_acquire) > 1) {
      CopiedOnWrite copy = make();
      copy.held_->value = held_->value;
      *this = std::move(copy);
    }
    return held_->value;
  }

 private:
  struct Held {
    T value{};
    std::atomic<uint32_t> owners{1};
  };
  Held* held_ = nullptr;
};

}  // namespace brickfs
