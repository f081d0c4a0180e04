// SPDX-License-Identifier: Apache-2.0
// A device of this host by which bricks are reached, as the client's memory has to do with it. Transports derive.
//
// Threads: every call from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "transport/base/mutex.h"
#include "transport/base/result.h"
#include "transport/brick/limits.h"

namespace brickfs::onesided {

// Memory as a device knows it, until its owner goes.
struct LocalRegion {
  uint64_t key = 0;  // the device's own: not 0
  std::shared_ptr<void> owner;
};

class MemoryDevice;

// Buffers of limits::kStagingBytes for memory that is not registered; made when one is first needed.
class StagingPool {
 public:
  explicit StagingPool(const MemoryDevice& device) : device_(device) {}

  // None: all are in use, or (also said in the log) memory cannot be registered: see broken().
  std::optional<uint32_t> take();
  void give_back(uint32_t number);
  bool broken() const;
  std::byte* data(uint32_t number) const { return memory_.get() + number * limits::kStagingBytes; }
  uint64_t key() const { return region_.key; }  // of whoever has taken one

 private:
  struct FreeMemory {
    void operator()(std::byte* memory) const;
  };
  Status make() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const MemoryDevice& device_;
  mutable Mutex mutex_;
  std::unique_ptr<std::byte, FreeMemory> memory_;  // fixed once made
  LocalRegion region_;                             // fixed once made
  std::vector<uint32_t> free_ ABSL_GUARDED_BY(mutex_);
  bool broken_ ABSL_GUARDED_BY(mutex_) = false;
};

class MemoryDevice {
 public:
  struct Traits {
    std::string name;  // of no other device of this host
    uint32_t slices = 0;
    uint64_t message_bytes = 0;  // of one work request, as its slices
    bool registers = true;       // else it reaches all memory of this process, and no slice has a key
  };

  virtual ~MemoryDevice() = default;
  MemoryDevice(const MemoryDevice&) = delete;
  MemoryDevice& operator=(const MemoryDevice&) = delete;

  const Traits& traits() const { return traits_; }
  size_t number() const { return number_; }  // in its LocalMemory
  StagingPool& staging() const { return *staging_; }
  // For work requests of this process. ENOMEM, EPERM.
  virtual Result<LocalRegion> register_memory(std::span<std::byte> memory) const = 0;

 protected:
  MemoryDevice(Traits traits, size_t number)
      : traits_(std::move(traits)), number_(number), staging_(std::make_unique<StagingPool>(*this)) {}
  // Of who derives, before what regions are in goes.
  void drop_staging() { staging_.reset(); }

 private:
  const Traits traits_;
  const size_t number_;
  std::unique_ptr<StagingPool> staging_;
};

}  // namespace brickfs::onesided
