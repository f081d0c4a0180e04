// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/local_memory.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "transport/brick/limits.h"

namespace brickfs::verbs {
namespace {

constexpr size_t kPageBytes = 4096;

}  // namespace

void StagingPool::FreeMemory::operator()(std::byte* memory) const { std::free(memory); }

Status StagingPool::make() {
  constexpr size_t kBytes = limits::kStagingBuffers * limits::kStagingBytes;
  memory_.reset(static_cast<std::byte*>(std::aligned_alloc(kPageBytes, kBytes)));
  if (!memory_) return Error(ENOMEM, "staging buffers");
  region_ = TRY(register_region(domain_, {memory_.get(), kBytes}, IBV_ACCESS_LOCAL_WRITE));
  for (uint32_t number = 0; number < limits::kStagingBuffers; ++number) free_.push_back(number);
  return {};
}

std::optional<uint32_t> StagingPool::take() {
  MutexLock lock(mutex_);
  if (!region_ && !broken_) broken_ = !make().ok();
  if (free_.empty()) return std::nullopt;
  const uint32_t number = free_.back();
  free_.pop_back();
  return number;
}

void StagingPool::give_back(uint32_t number) {
  MutexLock lock(mutex_);
  free_.push_back(number);
}

bool StagingPool::broken() const {
  MutexLock lock(mutex_);
  return broken_;
}

Result<std::unique_ptr<ClientDevice>> ClientDevice::make(ibv_context* device, size_t number) {
  std::unique_ptr<ClientDevice> made(new ClientDevice);
  made->facts_ = TRY(look_at(device));
  made->context_ = device;
  made->number_ = number;
  made->domain_ = TRY(make_domain(device));
  made->staging_ = std::make_unique<StagingPool>(made->domain_.get());
  return made;
}

Status LocalMemory::register_with(const ClientDevice& device, Registration& registration) {
  MrPtr& region = registration.regions[device.number()];
  region = TRY(register_region(device.domain(), registration.memory, IBV_ACCESS_LOCAL_WRITE));
  registration.keys[device.number()].store(region->lkey, std::memory_order_release);
  return {};
}

Result<ClientDevice*> LocalMemory::find_device(ibv_context* device) {
  MutexLock lock(mutex_);
  for (const auto& known : devices_) {
    if (known->context() == device) return known.get();
  }
  if (devices_.size() == kDevices) return Error(ENODEV, "the brick is reached through too many RDMA devices");
  auto made = TRY(ClientDevice::make(device, devices_.size()));
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

uint32_t LocalMemory::key_of(const LocalSlice& slice, size_t device) const {
  if (slice.local_key == 0 || slice.local_key > table_.size()) return 0;
  const Registration* const registration = table_[slice.local_key - 1].load(std::memory_order_acquire);
  if (registration == nullptr) return 0;
  const std::byte* const first = registration->memory.data();
  const bool within = slice.data >= first && slice.data + slice.length_bytes <= first + registration->memory.size();
  return within ? registration->keys[device].load(std::memory_order_acquire) : 0;
}

}  // namespace brickfs::verbs
