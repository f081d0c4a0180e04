// SPDX-License-Identifier: Apache-2.0
// How a client comes by its connections and endpoints over libfabric: TCP for calls, by which endpoints get to know
// each other. docs/protocol.md, "libfabric".
#pragma once

#include <string>
#include <string_view>

#include "transport/onesided/connector.h"
#include "transport/onesided/local_memory.h"

namespace brickfs::fabric {

class Connector final : public onesided::Connector {
 public:
  // `provider`: empty: the brick's.
  Connector(onesided::LocalMemory& memory, std::string provider) : memory_(memory), provider_(std::move(provider)) {}

  std::string_view transport() const override { return "fabric"; }
  size_t most_queue_pairs() const override { return 1; }  // an endpoint is no narrower than several
  Result<Greeted<Channel>> greet(const HostPort& address, Deadline latest, TlsMode tls, const Secret& secret) override;
  std::string device_of(Channel& calls) const override;
  Result<onesided::Connected> connect(const onesided::Place& place, Deadline latest) override;
  Status find_way(const HostPort& address, Deadline latest) override;

 private:
  onesided::LocalMemory& memory_;
  const std::string provider_;
};

}  // namespace brickfs::fabric
