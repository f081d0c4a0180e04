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

#include "server/service/brick_service.h"
#include "server/verbs/domain.h"
#include "server/verbs/queue_pair.h"
#include "transport/base/mutex.h"
#include "transport/verbs/verbs_wire.h"

namespace brickfs {

class VerbsAccess final : public RemoteAccess {
 public:
  // `devices` outlives this. Keys are given from the first on.
  VerbsAccess(VerbsDevices& devices, uint32_t first_key);
  ~VerbsAccess() override;

  Result<uint32_t> grant(std::span<std::byte> memory, Access access) override;
  void revoke(std::span<const uint32_t> keys) override;
  size_t reach(const std::byte* from) const override;
  void add_keys(calls::Mapped& mapped) const override;
  void cut_off() override;
  Result<calls::Answer> call(const calls::Request& request) override;

  bool offered(const verbs::Ticket& ticket) const;
  // Lets the connection that brings the ticket in. The id is destroyed if that cannot be.
  Status admit(const verbs::Ticket& ticket, verbs::CmIdPtr id, const rdma_conn_param& asked);

 private:
  struct Grant {
    std::span<std::byte> memory;
    Access access{};
    std::map<ibv_context*, verbs::MrPtr> regions;                                     // where there are no windows
    std::array<std::unique_ptr<VerbsWindow>, limits::kQueuePairsPerSession> windows;  // where there are
    calls::QueuePairKeys keys{};
  };
  struct Slot {
    std::optional<verbs::Ticket> ticket;  // offered
    verbs::Clock::time_point offered_at;
    std::unique_ptr<VerbsQueuePair> pair;
  };

  // A place for one more queue pair. ENOBUFS: limits::kQueuePairsPerSession are there or on their way. ENOTCONN: cut
  // off.
  Result<calls::QueuePairOffer> offer_queue_pair();
  // On return no access through these queue pairs (bit n: queue pair n) can land any more.
  void detach(uint32_t pairs);
  calls::KeyPage keys_of(const calls::Keys& call) const;
  Result<VerbsDomain*> domain_of(ibv_context* device) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void revoke_some(std::span<const uint32_t> keys);
  Status extend(Grant& grant, size_t slot) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Status extend_all(size_t slot) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void destroy_queue_pair(size_t slot) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  VerbsDevices& devices_;
  mutable Mutex mutex_;
  // Regions and windows go before the queue pairs and domains they are in.
  std::map<ibv_context*, std::unique_ptr<VerbsDomain>> domains_ ABSL_GUARDED_BY(mutex_);
  std::array<Slot, limits::kQueuePairsPerSession> slots_ ABSL_GUARDED_BY(mutex_);
  std::map<uint32_t, Grant> grants_ ABSL_GUARDED_BY(mutex_);
  uint32_t next_key_ ABSL_GUARDED_BY(mutex_);
  bool over_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace brickfs
