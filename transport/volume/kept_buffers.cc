// SPDX-License-Identifier: Apache-2.0
#include "transport/volume/kept_buffers.h"

#include <utility>

#include "transport/base/check.h"

namespace brickfs {
namespace {

constexpr size_t kBuffersPerSlab = 16;

}  // namespace

std::shared_ptr<KeptBuffers> KeptBuffers::make(Register registers) {
  return std::shared_ptr<KeptBuffers>(new KeptBuffers(std::move(registers)));
}

KeptBuffers::Buffer KeptBuffers::take(uint32_t length) {
  CHECK(length <= kLargeBytes);
  if (length < kLargeBytes) {
    const auto own = std::make_shared_for_overwrite<std::byte[]>(length);
    return {{own, own.get()}, 0};
  }
  const Free large = take_large();
  const auto give_back = [pool = shared_from_this(), large](std::byte*) { pool->give_back(large); };
  return {{large.bytes, give_back}, large.local_key};
}

KeptBuffers::Free KeptBuffers::take_large() {
  {
    MutexLock lock(mutex_);
    if (!free_.empty()) {
      const Free free = free_.back();
      free_.pop_back();
      return free;
    }
  }
  Slab slab;
  slab.memory = std::make_unique_for_overwrite<std::byte[]>(kBuffersPerSlab * kLargeBytes);
  if (register_) {
    auto registered = register_({slab.memory.get(), kBuffersPerSlab * kLargeBytes});
    if (registered.ok()) slab.registration = std::move(*registered);
  }
  std::byte* const first = slab.memory.get();
  const uint32_t key = slab.registration.local_key();
  MutexLock lock(mutex_);
  for (size_t i = 1; i < kBuffersPerSlab; ++i) free_.push_back({first + i * kLargeBytes, key});
  slabs_.push_back(std::move(slab));
  return {first, key};
}

void KeptBuffers::give_back(Free buffer) {
  MutexLock lock(mutex_);
  free_.push_back(buffer);
}

void KeptBuffers::unregister() {
  std::vector<RegisteredMemory> registrations;  // given back without the lock
  MutexLock lock(mutex_);
  for (Slab& slab : slabs_) registrations.push_back(std::exchange(slab.registration, {}));
}

}  // namespace brickfs
