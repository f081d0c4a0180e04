// SPDX-License-Identifier: Apache-2.0
// Keys of memory that is registered with several bricks: one key of the volume's stands for a key of each of them. A
// piece carries that one, and whoever posts to a brick asks for the brick's (transport/volume/transfer_round.cc).
//
// Errors as Brick::register_memory(). Threads: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "transport/base/mutex.h"
#include "transport/base/result.h"
#include "transport/brick/brick.h"

namespace brickfs {

class LocalKeys {
 public:
  using Register = std::function<Result<RegisteredMemory>(std::span<std::byte> memory)>;

  // One brick's. As long as it lives the brick is there. Empty: of a volume of one brick, whose keys are the brick's.
  class Own {
   public:
    Own() = default;
    ~Own() { end(); }
    Own(Own&& other) noexcept : keys_(std::exchange(other.keys_, nullptr)), slot_(other.slot_) {}
    Own& operator=(Own&& other) noexcept {
      std::swap(keys_, other.keys_);
      std::swap(slot_, other.slot_);
      return *this;
    }

    // The brick's for one of the volume's. 0, which may cost a copy: it has none.
    uint32_t of(uint32_t key) const { return keys_ == nullptr || key == 0 ? key : keys_->find(key, slot_); }

   private:
    friend class LocalKeys;
    Own(LocalKeys* keys, size_t slot) : keys_(keys), slot_(slot) {}
    void end() {
      if (keys_ != nullptr) keys_->detach(slot_);
    }

    LocalKeys* keys_ = nullptr;
    size_t slot_ = 0;
  };

  LocalKeys() = default;
  LocalKeys(const LocalKeys&) = delete;
  LocalKeys& operator=(const LocalKeys&) = delete;

  // A brick of that place. What is registered already is registered with it, too, as far as it takes that.
  Own attach(size_t place, Register brick);
  // With all bricks, or those of a place, now and later. Ends before this does.
  Result<RegisteredMemory> add(std::span<std::byte> memory, std::optional<size_t> place = std::nullopt);

 private:
  struct Brick {
    size_t place = 0;
    Register registers;  // empty: there is none
  };
  struct Memory {
    std::span<std::byte> bytes;  // empty: there is none
    std::optional<size_t> place;
    std::vector<RegisteredMemory> registrations;  // by slot
  };

  uint32_t find(uint32_t key, size_t slot) const;
  void detach(size_t slot);
  void remove(size_t index);

  Mutex registering_;  // before the other; it takes its time
  std::vector<Brick> bricks_ ABSL_GUARDED_BY(registering_);
  mutable SharedMutex mutex_;
  std::vector<Memory> memories_ ABSL_GUARDED_BY(mutex_);  // key - 1; changed with registering_
};

}  // namespace brickfs
