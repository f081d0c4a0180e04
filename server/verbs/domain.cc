// SPDX-License-Identifier: Apache-2.0
#include "server/verbs/domain.h"

#include <algorithm>

#include "transport/base/log.h"
#include "transport/brick/limits.h"
#include "transport/verbs/window_probe.h"

namespace brickfs {

Result<const VerbsDevice*> VerbsDevices::find(ibv_context* device) {
  MutexLock lock(mutex_);
  const auto found = devices_.find(device);
  if (found != devices_.end()) return found->second.get();
  auto made = std::make_unique<VerbsDevice>();
  made->facts = TRY(verbs::look_at(device));
  service_.announce_device();
  const Status tried = made->facts.claims_windows ? verbs::try_windows(device) : Error(ENOTSUP, "it claims none");
  made->windows = tried.ok();
  if (made->windows) {
    memory_ = service_.memory_for_devices();
    log::info("RDMA device {}: clients reach memory through type-2 windows", made->facts.name);
  } else {
    log::info("RDMA device {}: clients reach memory through a region for each mapped run (no type-2 windows: {})",
              made->facts.name, tried.error().what());
  }
  return devices_.emplace(device, std::move(made)).first->second.get();
}

std::span<std::byte> VerbsDevices::memory() const {
  MutexLock lock(mutex_);
  return memory_;
}

Result<std::unique_ptr<VerbsDomain>> VerbsDomain::make(ibv_context* device, const VerbsDevice& traits,
                                                       std::span<std::byte> memory) {
  std::unique_ptr<VerbsDomain> made(new VerbsDomain(traits, memory));
  made->domain_ = TRY(verbs::make_domain(device));
  made->flush_bytes_ = std::make_unique<std::array<std::byte, verbs::kFlushBytes>>();
  made->flush_region_ = TRY(verbs::register_region(made->domain_.get(), *made->flush_bytes_, IBV_ACCESS_REMOTE_READ));
  return made;
}

Result<verbs::MrPtr> VerbsDomain::expose(std::span<std::byte> memory, Access access) {
  int flags = IBV_ACCESS_REMOTE_READ;
  if (access == Access::kReadWrite) flags |= IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
  return verbs::register_region(domain_.get(), memory, flags);
}

Result<ibv_mr*> VerbsDomain::slab_of(std::span<std::byte> memory) {
  const size_t size = slab_bytes(memory_.size());
  const size_t number = static_cast<size_t>(memory.data() - memory_.data()) / size;
  auto& slab = slabs_[number];
  if (!slab) {
    const auto bytes = memory_.subspan(number * size, std::min(size, memory_.size() - number * size));
    slab = TRY(verbs::register_region(domain_.get(), bytes, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND));
  }
  return slab.get();
}

size_t slab_bytes(size_t memory_bytes) {
  return std::max<size_t>(limits::kSlabBytes, round_up(divide_up(memory_bytes, limits::kSlabs), kBlockBytes));
}

size_t bytes_to_slab_end(std::span<std::byte> memory, const std::byte* from) {
  if (memory.empty()) return SIZE_MAX;
  const auto offset = static_cast<size_t>(from - memory.data());
  const size_t size = slab_bytes(memory.size());
  return size - offset % size;
}

}  // namespace brickfs
