// SPDX-License-Identifier: Apache-2.0
#include "server/fabric/access.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace brickfs {

Status FabricAccess::extend(Grant& grant, size_t slot) {
  auto region = endpoints_[slot]->expose(grant.memory, grant.access);
  if (region.code() == ENOTCONN) return {};  // the client notices by itself
  grant.owned[slot] = TRY(std::move(region));
  grant.keys[slot] = static_cast<uint32_t>(grant.owned[slot].key);
  return {};
}

void FabricAccess::revoke(std::span<const uint32_t> keys) {
  MutexLock lock(mutex_);
  for (size_t slot = 0; slot < kSlots; ++slot) {
    if (!endpoints_[slot]) continue;
    std::vector<fabric::Region> regions;
    for (const uint32_t key : keys) regions.push_back(std::move(grants_.at(key).owned[slot]));
    endpoints_[slot]->withdraw(std::move(regions));
  }
  for (const uint32_t key : keys) grants_.erase(key);
}

void FabricAccess::take_away(std::span<const uint32_t> keys) {
  {
    MutexLock lock(mutex_);
    const bool writes =
        std::ranges::any_of(keys, [&](uint32_t key) { return grants_.at(key).access == Access::kReadWrite; });
    for (size_t slot = 0; slot < kSlots; ++slot) {
      if (writes && endpoints_[slot] && endpoints_[slot]->provider().ends_late()) destroy_pair(slot);
    }
  }
  revoke(keys);
}

Result<calls::Answer> FabricAccess::offer(const calls::Request& request) {
  const auto* const asked = std::get_if<calls::Endpoint>(&request);
  if (asked == nullptr) return Error(EPROTO, "no such call");
  return calls::to_answer(offer_endpoint(*asked));
}

Result<calls::EndpointOffer> FabricAccess::offer_endpoint(const calls::Endpoint& asked) {
  auto endpoint = TRY(open_(asked));
  MutexLock lock(mutex_);
  if (is_over()) return Error(ENOTCONN, "the session is cut off");
  const auto free = std::ranges::find_if(endpoints_, [](const auto& at) { return at == nullptr; });
  if (free == endpoints_.end()) return Error(ENOBUFS, "too many endpoints");
  const auto slot = static_cast<size_t>(free - endpoints_.begin());
  endpoints_[slot] = std::move(endpoint);
  TRY(extend_all(slot));
  calls::EndpointOffer offer = endpoints_[slot]->offer();
  offer.pair = static_cast<uint32_t>(slot);
  return offer;
}

// Shut first: what comes in by a stream ends with it, and then nobody is at the regions.
void FabricAccess::destroy_pair(size_t slot) {
  if (!endpoints_[slot]) return;
  endpoints_[slot]->shut();
  for (auto& [key, grant] : grants_) {
    grant.owned[slot] = {};
    grant.keys[slot] = 0;
  }
  endpoints_[slot].reset();
}

}  // namespace brickfs
