// SPDX-License-Identifier: Apache-2.0
// Everything by which one client may reach the brick's memory over libfabric: endpoints, and a grant for each handle,
// which is a registered region on each of them.
//
// Threads: every call from any thread.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>

#include "server/fabric/served_endpoint.h"
#include "server/onesided/access.h"
#include "transport/brick/limits.h"

namespace brickfs {

using FabricGrant = std::array<fabric::Region, limits::kQueuePairsPerSession>;  // by slot

class FabricAccess final : public OneSidedAccess<FabricGrant> {
 public:
  // Makes an endpoint as a client asks for it.
  using Open = std::function<Result<std::unique_ptr<FabricServedEndpoint>>(const calls::Endpoint&)>;

  FabricAccess(Open open, uint32_t first_key) : OneSidedAccess(first_key), open_(std::move(open)) {}
  ~FabricAccess() override { end(); }

  void revoke(std::span<const uint32_t> keys) override;
  // Endpoints that might still carry what was begun by a key for writing are shut.
  void take_away(std::span<const uint32_t> keys) override;
  size_t reach(const std::byte*) const override { return SIZE_MAX; }

 private:
  Result<calls::Answer> offer(const calls::Request& request) override;
  bool has_pair(size_t slot) const override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return endpoints_[slot] != nullptr;
  }
  Status extend(Grant& grant, size_t slot) override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void destroy_pair(size_t slot) override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Result<calls::EndpointOffer> offer_endpoint(const calls::Endpoint& asked);

  const Open open_;
  // Regions go before the endpoints that they are of.
  std::array<std::unique_ptr<FabricServedEndpoint>, kSlots> endpoints_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace brickfs
