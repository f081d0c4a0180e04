// SPDX-License-Identifier: Apache-2.0
// Everything by which one client's devices may reach the brick's memory: a protection domain on each device it comes
// through, the queue pairs in them, and a grant for each handle. A grant is a memory window for each queue pair where
// the device has windows that hold what they promise, else a region in each domain.
//
// Threads: every call from any thread.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "server/onesided/access.h"
#include "server/verbs/domain.h"
#include "server/verbs/queue_pair.h"
#include "transport/verbs/verbs_wire.h"

namespace brickfs {

struct VerbsGrant {
  std::map<ibv_context*, verbs::MrPtr> regions;                                     // where there are no windows
  std::array<std::unique_ptr<VerbsWindow>, limits::kQueuePairsPerSession> windows;  // where there are
};

class VerbsAccess final : public OneSidedAccess<VerbsGrant> {
 public:
  // `devices` outlives this. Keys are given from the first on.
  VerbsAccess(VerbsDevices& devices, uint32_t first_key) : OneSidedAccess(first_key), devices_(devices) {}
  ~VerbsAccess() override { end(); }

  void revoke(std::span<const uint32_t> keys) override;
  size_t reach(const std::byte* from) const override;

  bool offered(const verbs::Ticket& ticket) const;
  // Lets the connection that brings the ticket in. The id is destroyed if that cannot be.
  Status admit(const verbs::Ticket& ticket, verbs::CmIdPtr id, const rdma_conn_param& asked);

 private:
  struct Slot {
    std::optional<verbs::Ticket> ticket;  // offered
    verbs::Clock::time_point offered_at;
    std::unique_ptr<VerbsQueuePair> pair;
  };

  Result<calls::Answer> offer(const calls::Request& request) override;
  bool has_pair(size_t slot) const override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return slots_[slot].pair != nullptr;
  }
  Status extend(Grant& grant, size_t slot) override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void destroy_pair(size_t slot) override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // A place for one more queue pair. ENOBUFS: limits::kQueuePairsPerSession are there or on their way. ENOTCONN: cut
  // off.
  Result<calls::QueuePairOffer> offer_queue_pair();
  Result<VerbsDomain*> domain_of(ibv_context* device) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void revoke_some(std::span<const uint32_t> keys);

  VerbsDevices& devices_;
  // Regions and windows go before the queue pairs and domains they are in.
  std::map<ibv_context*, std::unique_ptr<VerbsDomain>> domains_ ABSL_GUARDED_BY(mutex_);
  std::array<Slot, limits::kQueuePairsPerSession> slots_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace brickfs
