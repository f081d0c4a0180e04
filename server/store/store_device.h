// SPDX-License-Identifier: Apache-2.0
// What a store stands on: bytes that are durable after a sync, and not before. In production a file (file_device.h); in
// tests one that keeps, tears and reorders what was not synced (tests/support/crash_device.h).
//
// Threads: every call from any thread, but sync(), of which one is under way at a time (group_sync.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "transport/base/result.h"

namespace brickfs {

class StoreDevice {
 public:
  virtual ~StoreDevice() = default;

  virtual Result<uint64_t> size_bytes() const = 0;
  // EIO: beyond the end, or as the system gave it.
  virtual Status read(uint64_t offset, std::span<std::byte> into) const = 0;
  // The bytes may be changing meanwhile. ENOSPC: the disk is full, and no room was reserved here.
  virtual Status write(uint64_t offset, std::span<const std::byte> from) = 0;
  // Later writes there need no more room. What is there stays. ENOSPC.
  virtual Status reserve(uint64_t offset, uint64_t length_bytes) = 0;
  // Makes bytes zeros, and gives back the room they took. EOPNOTSUPP.
  virtual Status punch(uint64_t offset, uint64_t length_bytes) = 0;
  // ... by zeros. A device never shrinks.
  virtual Status grow(uint64_t size_bytes) = 0;

  // All calls above that had returned when it was called are durable. Once it has failed, what it should have made
  // durable may be lost and yet be read, and the next sync may succeed: it says so once, as Linux does.
  virtual Status sync() = 0;
  // What is read from now on is what the disk holds, where nothing is waiting to be written.
  virtual void forget_cache() = 0;
  // That can still be reserved.
  virtual uint64_t room_bytes() const = 0;
};

}  // namespace brickfs
