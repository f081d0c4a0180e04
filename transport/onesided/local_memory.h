// SPDX-License-Identifier: Apache-2.0
// The client's memory as its devices know it: registrations that live as long as the Brick, whatever becomes of its
// sessions.
//
// Threads: every call from any thread.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "transport/base/mutex.h"
#include "transport/base/result.h"
#include "transport/brick/brick.h"
#include "transport/onesided/memory_device.h"

namespace brickfs::onesided {

class LocalMemory {
 public:
  // Known devices are few: those that the brick's addresses are reached through.
  static constexpr size_t kDevices = 4;
  using MakeDevice = std::function<Result<std::unique_ptr<MemoryDevice>>(size_t number)>;

  // The device of that name. When it comes first it is made, and all memory that is known registered with it. It stays
  // as long as this. ENODEV: there are kDevices.
  Result<MemoryDevice*> find_device(const std::string& name, const MakeDevice& make);
  // With every device known now or later. ENOMEM, EPERM. The key is not 0.
  Result<uint32_t> add(std::span<std::byte> memory);
  // No transfer may name it any more.
  void remove(uint32_t local_key);

  // The device's own key for the slice; 0: it is not registered there. Takes no lock.
  uint64_t key_of(const LocalSlice& slice, size_t device) const;

 private:
  static constexpr size_t kRegistrations = 1024;  // a client has one for each purpose, a benchmark one for each thread

  struct Registration {
    std::span<std::byte> memory;
    std::array<std::atomic<uint64_t>, kDevices> keys{};  // by number of the device; 0: not there
    std::array<LocalRegion, kDevices> regions;           // LocalMemory's mutex_
  };
  static Status register_with(const MemoryDevice& device, Registration& registration);

  std::array<std::atomic<const Registration*>, kRegistrations>
      table_{};  // by local key - 1; registrations_, for readers

  Mutex mutex_;
  std::vector<std::unique_ptr<MemoryDevice>> devices_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<Registration>> registrations_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace brickfs::onesided
