// SPDX-License-Identifier: Apache-2.0
// How a client comes by its connections and queue pairs over RDMA: rdma_cm for both. docs/protocol.md, "RDMA".
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "transport/base/mutex.h"
#include "transport/onesided/connector.h"
#include "transport/onesided/local_memory.h"
#include "transport/verbs/queue_pair.h"

namespace brickfs::verbs {

struct OpenedPair {
  CmChannelPtr events;  // of the queue pair's connection; goes after it
  std::unique_ptr<QueuePair> pair;
  bool windows = false;
};
// Brings in the ticket that QUEUE_PAIR has answered. ENODEV: the address is reached through another device.
Result<OpenedPair> open_queue_pair(const HostPort& address, const calls::QueuePairOffer& offer,
                                   onesided::LocalMemory& memory, std::shared_ptr<CompletionChannel> completions,
                                   Deadline latest);

class Connector final : public onesided::Connector {
 public:
  explicit Connector(onesided::LocalMemory& memory) : memory_(memory) {}

  std::string_view transport() const override { return "rdma"; }
  size_t most_queue_pairs() const override { return limits::kQueuePairs; }
  Result<Greeted<Channel>> greet(const HostPort& address, Deadline latest, TlsMode, const Secret&) override;
  std::string device_of(Channel& calls) const override;
  Result<onesided::Connected> connect(const onesided::Place& place, Deadline latest) override;
  Status find_way(const HostPort& address, Deadline latest) override;

 private:
  Result<std::shared_ptr<CompletionChannel>> completions_of(ibv_context* device);

  onesided::LocalMemory& memory_;
  Mutex mutex_;
  // One for each device, there as long as this.
  std::vector<std::shared_ptr<CompletionChannel>> completions_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace brickfs::verbs
