// SPDX-License-Identifier: Apache-2.0
// The brick's devices, and one client's protection domain on one of them.
#pragma once

#include <array>
#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "server/service/brick_service.h"
#include "transport/base/mutex.h"
#include "transport/base/result.h"
#include "transport/verbs/device.h"
#include "transport/verbs/verbs_wire.h"

namespace brickfs {

struct VerbsDevice {
  verbs::DeviceFacts facts;
  bool windows = false;  // tried, and they hold what they promise
};

// The devices that clients have come through. Threads: any.
class VerbsDevices {
 public:
  explicit VerbsDevices(BrickService& service) : service_(service) {}
  // Tries the device out when it is first asked for.
  Result<const VerbsDevice*> find(ibv_context* device);
  // What windows are bound on; empty as long as no device has any.
  std::span<std::byte> memory() const;

 private:
  BrickService& service_;
  mutable Mutex mutex_;
  std::map<ibv_context*, std::unique_ptr<VerbsDevice>> devices_ ABSL_GUARDED_BY(mutex_);
  std::span<std::byte> memory_ ABSL_GUARDED_BY(mutex_);
};

// Not thread-safe.
class VerbsDomain {
 public:
  static Result<std::unique_ptr<VerbsDomain>> make(ibv_context* device, const VerbsDevice& traits,
                                                   std::span<std::byte> memory);

  const VerbsDevice& traits() const { return traits_; }
  ibv_pd* domain() const { return domain_.get(); }
  uint64_t flush_address() const { return reinterpret_cast<uint64_t>(flush_bytes_->data()); }
  uint32_t flush_key() const { return flush_region_->rkey; }

  // A region that is reached from afar by its key.
  Result<verbs::MrPtr> expose(std::span<std::byte> memory, Access access);
  // The registered slab that holds all of `memory` (a stretch within slab_bytes() of it), for windows on it.
  Result<ibv_mr*> slab_of(std::span<std::byte> memory);

 private:
  VerbsDomain(const VerbsDevice& traits, std::span<std::byte> memory) : traits_(traits), memory_(memory) {}

  const VerbsDevice& traits_;
  const std::span<std::byte> memory_;
  verbs::PdPtr domain_;
  std::unique_ptr<std::array<std::byte, verbs::kFlushBytes>> flush_bytes_;
  verbs::MrPtr flush_region_;
  std::map<size_t, verbs::MrPtr> slabs_;  // by number
};

// Memory is cut into slabs of this size, from its first byte on; a window lies within one.
size_t slab_bytes(size_t memory_bytes);
// The part of `memory` that a slab covers from there on; all the rest if it is not cut.
size_t bytes_to_slab_end(std::span<std::byte> memory, const std::byte* from);

}  // namespace brickfs
