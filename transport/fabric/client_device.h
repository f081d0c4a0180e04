// SPDX-License-Identifier: Apache-2.0
// A client's way into a fabric: a provider at one of this host's addresses.
//
// Threads: every call from any thread.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "transport/base/result.h"
#include "transport/fabric/domain.h"
#include "transport/onesided/local_memory.h"

namespace brickfs::fabric {

class ClientDevice final : public onesided::MemoryDevice {
 public:
  // That of the brick's memory, made when it comes first. Errors as find_provider().
  static Result<ClientDevice*> find(onesided::LocalMemory& memory, const std::string& provider,
                                    const std::string& host);
  ~ClientDevice() override { drop_staging(); }

  const std::shared_ptr<Domain>& domain() const { return domain_; }
  Result<onesided::LocalRegion> register_memory(std::span<std::byte> memory) const override;

 private:
  ClientDevice(std::shared_ptr<Domain> domain, size_t number);

  const std::shared_ptr<Domain> domain_;
};

}  // namespace brickfs::fabric
