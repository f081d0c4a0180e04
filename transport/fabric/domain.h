// SPDX-License-Identifier: Apache-2.0
// Access to a provider, and memory registered with it. Keys of one domain mean nothing in another.
//
// Threads: every call from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "transport/base/result.h"
#include "transport/fabric/fabric_ptr.h"
#include "transport/fabric/provider.h"

namespace brickfs::fabric {

struct Region {
  MrPtr region;
  uint64_t key = 0;
  void* descriptor = nullptr;  // for local use
};

class Domain {
 public:
  static Result<std::shared_ptr<Domain>> open(Provider provider);

  const Provider& provider() const { return provider_; }
  fid_fabric* fabric() const { return fabric_.get(); }
  fid_domain* domain() const { return domain_.get(); }
  fid_av* addresses() const { return addresses_.get(); }

  // Memory that `access` (FI_READ, FI_REMOTE_WRITE ...) is allowed to. `key`: asked for, where providers do not choose.
  // `endpoint`: by which it is reached, where that has to be said; else null. ENOMEM, EPERM, ENOKEY (the key is taken).
  Result<Region> register_memory(std::span<std::byte> memory, uint64_t access, uint64_t key, fid_ep* endpoint) const;

 private:
  explicit Domain(Provider provider) : provider_(std::move(provider)) {}

  const Provider provider_;
  FabricPtr fabric_;
  DomainPtr domain_;
  AvPtr addresses_;
};

}  // namespace brickfs::fabric
