// SPDX-License-Identifier: Apache-2.0
#include "transport/onesided/local_memory.h"

#include <algorithm>

namespace brickfs::onesided {

Status LocalMemory::register_with(const MemoryDevice& device, Registration& registration) {
  if (!device.traits().registers) return {};
  LocalRegion& region = registration.regions[device.number()];
  region = TRY(device.register_memory(registration.memory));
  registration.keys[device.number()].store(region.key, std::memory_order_release);
  return {};
}

Result<MemoryDevice*> LocalMemory::find_device(const std::string& name, const MakeDevice& make) {
  MutexLock lock(mutex_);
  for (const auto& known : devices_) {
    if (known->traits().name == name) return known.get();
  }
  if (devices_.size() == kDevices) return Error(ENODEV, "the brick is reached through too many devices");
  auto made = TRY(make(devices_.size()));
  // Memory that cannot be registered there is copied through staging buffers; the log says why.
  for (const auto& registration : registrations_) {
    if (registration) static_cast<void>(register_with(*made, *registration));
  }
  devices_.push_back(std::move(made));
  return devices_.back().get();
}

Result<uint32_t> LocalMemory::add(std::span<std::byte> memory) {
  if (memory.empty()) return Error(EINVAL, "no memory to register");
  MutexLock lock(mutex_);
  const auto place = std::ranges::find_if(registrations_, [](const auto& at) { return at == nullptr; });
  const auto index = static_cast<uint32_t>(place - registrations_.begin());
  if (index == kRegistrations) return Error(ENOMEM, "too many pieces of memory are registered");
  auto registration = std::make_unique<Registration>();
  registration->memory = memory;
  for (const auto& device : devices_) TRY(register_with(*device, *registration));
  table_[index].store(registration.get(), std::memory_order_release);
  if (place == registrations_.end()) {
    registrations_.push_back(std::move(registration));
  } else {
    *place = std::move(registration);
  }
  return index + 1;
}

void LocalMemory::remove(uint32_t local_key) {
  MutexLock lock(mutex_);
  table_[local_key - 1].store(nullptr, std::memory_order_release);
  registrations_[local_key - 1].reset();
}

uint64_t LocalMemory::key_of(const LocalSlice& slice, size_t device) const {
  if (slice.local_key == 0 || slice.local_key > table_.size()) return 0;
  const Registration* const registration = table_[slice.local_key - 1].load(std::memory_order_acquire);
  if (registration == nullptr) return 0;
  const std::byte* const first = registration->memory.data();
  const bool within = slice.data >= first && slice.data + slice.length_bytes <= first + registration->memory.size();
  return within ? registration->keys[device].load(std::memory_order_acquire) : 0;
}

}  // namespace brickfs::onesided
