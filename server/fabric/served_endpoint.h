// SPDX-License-Identifier: Apache-2.0
// The brick's endpoint for one client, in a domain of its own, so that its keys are of no use to others; and a thread
// that lets the provider work, where it needs a processor for what peers do.
//
// Threads: every call from any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "transport/base/mutex.h"
#include "transport/base/result.h"
#include "transport/base/unique_fd.h"
#include "transport/brick/block.h"
#include "transport/brick/calls.h"
#include "transport/fabric/endpoint.h"

namespace brickfs {

class FabricServedEndpoint {
 public:
  // Errors as fabric::find_provider(), and of the provider. EOVERFLOW: its keys are longer than handles have room for.
  static Result<std::unique_ptr<FabricServedEndpoint>> open(const std::string& provider, const std::string& host,
                                                            std::string* why);
  // No access by it can land any more. What expose() gave must be gone.
  ~FabricServedEndpoint();

  const fabric::Provider& provider() const { return domain_->provider(); }
  // As the peer is told; without its number.
  const calls::EndpointOffer& offer() const { return offer_; }

  // Memory that the peer reaches from now on, until withdraw(), or the region goes. The upper half of its key is that
  // of the offer, the lower is not 0. ENOTCONN: shut() was called.
  Result<fabric::Region> expose(std::span<std::byte> memory, Access access);
  // On return nobody is copying by these keys, and who tries is refused. Of a provider that ends late
  // (fabric::Provider::ends_late()) what has begun to come in may go on.
  void withdraw(std::vector<fabric::Region> regions);
  // On return no access by this endpoint can land any more. What was exposed must still be there.
  void shut();

 private:
  explicit FabricServedEndpoint(std::shared_ptr<fabric::Domain> domain, UniqueFd stop);
  Result<fabric::Region> expose_with(std::span<std::byte> memory, uint64_t rights);
  void run();
  bool progress();
  bool may_sleep();  // and the queue's descriptor tells of what comes

  const std::shared_ptr<fabric::Domain> domain_;
  const UniqueFd stop_;  // eventfd
  calls::EndpointOffer offer_;
  std::unique_ptr<std::array<std::byte, 8>> flush_bytes_;

  Mutex progress_mutex_;  // of whoever lets the provider work
  fabric::Endpoint endpoint_ ABSL_GUARDED_BY(progress_mutex_);
  uint64_t accesses_ ABSL_GUARDED_BY(progress_mutex_) = 0;  // that have been counted
  fabric::Region flush_region_;
  std::thread thread_;
};

}  // namespace brickfs
