// SPDX-License-Identifier: Apache-2.0
// The client's memory as its devices know it: registrations that live as long as the Brick, whatever becomes of its
// sessions, and staging buffers for memory that is not registered. One protection domain on each device.
//
// Threads: every call from any thread.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "transport/base/mutex.h"
#include "transport/base/result.h"
#include "transport/brick/brick.h"
#include "transport/brick/limits.h"
#include "transport/verbs/device.h"
#include "transport/verbs/verbs_ptr.h"

namespace brickfs::verbs {

// Buffers of limits::kStagingBytes, registered when one is first needed.
class StagingPool {
 public:
  explicit StagingPool(ibv_pd* domain) : domain_(domain) {}

  // None: all are in use, or (also said in the log) memory cannot be registered: see broken().
  std::optional<uint32_t> take();
  void give_back(uint32_t number);
  bool broken() const;
  std::byte* data(uint32_t number) const { return memory_.get() + number * limits::kStagingBytes; }
  uint32_t key() const { return region_->lkey; }  // of whoever has taken one

 private:
  struct FreeMemory {
    void operator()(std::byte* memory) const;
  };
  Status make() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  ibv_pd* const domain_;
  mutable Mutex mutex_;
  std::unique_ptr<std::byte, FreeMemory> memory_;  // fixed once made
  MrPtr region_;                                   // fixed once made
  std::vector<uint32_t> free_ ABSL_GUARDED_BY(mutex_);
  bool broken_ ABSL_GUARDED_BY(mutex_) = false;
};

// A device that leads to the brick.
class ClientDevice {
 public:
  static Result<std::unique_ptr<ClientDevice>> make(ibv_context* device, size_t number);

  const DeviceFacts& facts() const { return facts_; }
  ibv_context* context() const { return context_; }
  ibv_pd* domain() const { return domain_.get(); }
  size_t number() const { return number_; }
  StagingPool& staging() { return *staging_; }

 private:
  ClientDevice() = default;

  DeviceFacts facts_;
  ibv_context* context_ = nullptr;
  size_t number_ = 0;
  PdPtr domain_;
  std::unique_ptr<StagingPool> staging_;
};

class LocalMemory {
 public:
  // Known devices are few: those that the brick's addresses are reached through.
  static constexpr size_t kDevices = 4;

  // Registers all memory that is known with the device when it comes first.
  Result<ClientDevice*> find_device(ibv_context* device);
  // With every device known now or later. ENOMEM, EPERM. The key is not 0.
  Result<uint32_t> add(std::span<std::byte> memory);
  // No transfer may name it any more.
  void remove(uint32_t local_key);

  // The device's own key for the slice; 0: it is not registered there. Takes no lock.
  uint32_t key_of(const LocalSlice& slice, size_t device) const;

 private:
  static constexpr size_t kRegistrations = 1024;  // a client has one for each purpose, a benchmark one for each thread

  struct Registration {
    std::span<std::byte> memory;
    std::array<std::atomic<uint32_t>, kDevices> keys{};  // by number of the device; 0: not there
    std::array<MrPtr, kDevices> regions;                 // LocalMemory's mutex_
  };
  static Status register_with(const ClientDevice& device, Registration& registration);

  std::array<std::atomic<const Registration*>, kRegistrations>
      table_{};  // by local key - 1; registrations_, for readers

  Mutex mutex_;
  std::vector<std::unique_ptr<ClientDevice>> devices_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<Registration>> registrations_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace brickfs::verbs
