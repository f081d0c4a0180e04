// SPDX-License-Identifier: Apache-2.0
// A client's endpoint for data, as a queue pair. Work requests complete in any order.
//
// A write is posted so that its completion says that it is in the brick's memory, where the provider can tell; else
// flushes are reads behind it, in an order that was asked for. A completion that is an error ends the queue pair.
//
// Threads: every call from any thread, drain() from one.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "transport/base/mutex.h"
#include "transport/base/result.h"
#include "transport/brick/calls.h"
#include "transport/fabric/client_device.h"
#include "transport/fabric/endpoint.h"
#include "transport/onesided/local_memory.h"
#include "transport/onesided/queue_pair.h"

namespace brickfs::fabric {

using onesided::Part;
using onesided::Parts;

class QueuePair final : public onesided::QueuePair {
 public:
  // EADDRNOTAVAIL: the brick's endpoint cannot be spoken to.
  static Result<std::unique_ptr<QueuePair>> open(const calls::EndpointOffer& offer, ClientDevice& device,
                                                 const onesided::LocalMemory& memory);
  ~QueuePair() override;

  Result<size_t> post(std::span<const Part> parts) override;
  void poll(Parts& done) override;
  void arm() override;
  void fail() override;
  Parts drain(Parts& done) override;

 private:
  struct Slot {  // a work request under way
    fi_context2 context{};
    Part part;
    bool taken = false;
  };

  QueuePair(const calls::EndpointOffer& offer, ClientDevice& device, Endpoint endpoint, fi_addr_t peer,
            const onesided::LocalMemory& memory);
  // 0, or what libfabric says.
  ssize_t post_one(const Part& part, Slot& slot);
  bool give_up_waiting() ABSL_EXCLUSIVE_LOCKS_REQUIRED(post_mutex_);
  bool take_error() ABSL_EXCLUSIVE_LOCKS_REQUIRED(poll_mutex_);
  void take(std::span<const fi_cq_entry> completions, Parts& done) ABSL_EXCLUSIVE_LOCKS_REQUIRED(poll_mutex_);
  void give_back(Slot& slot);

  ClientDevice& device_;
  const onesided::LocalMemory& memory_;
  const std::shared_ptr<CompletionQueue> queue_;
  const fi_addr_t peer_;
  const bool virtual_addresses_;
  const uint64_t high_keys_;
  const uint64_t flush_address_;
  const uint64_t flush_key_;
  std::array<std::byte, 8> flush_into_{};
  onesided::LocalRegion flush_region_;

  Mutex post_mutex_;
  std::chrono::steady_clock::time_point refused_since_ ABSL_GUARDED_BY(post_mutex_);  // nothing is under way since
  Mutex poll_mutex_;
  std::vector<Slot> slots_;
  Mutex free_mutex_;  // behind both
  std::vector<uint32_t> free_ ABSL_GUARDED_BY(free_mutex_);

  EndpointPtr endpoint_;  // gone once drained, which has both mutexes then
};

}  // namespace brickfs::fabric
