// SPDX-License-Identifier: Apache-2.0
// Making RDMA connections: addresses, devices, requests and replies (librdmacm). Nothing here posts work.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "transport/base/result.h"
#include "transport/brick/source.h"
#include "transport/verbs/device.h"
#include "transport/verbs/verbs_ptr.h"
#include "transport/verbs/verbs_wire.h"

namespace brickfs::verbs {

using Clock = std::chrono::steady_clock;
using Deadline = Clock::time_point;

// A connection identifier with an event channel of its own (a client's); the id goes first.
struct CmId {
  CmChannelPtr channel;
  CmIdPtr id;
};

// Addresses of a host, the best first. EHOSTUNREACH: no such name.
struct AddressListDeleter {
  void operator()(rdma_addrinfo* list) const { rdma_freeaddrinfo(list); }
};
using AddressList = std::unique_ptr<rdma_addrinfo, AddressListDeleter>;
Result<AddressList> resolve_host(const HostPort& peer, bool passive);

// The next event; ETIMEDOUT.
Result<CmEventPtr> next_event(rdma_event_channel& channel, Deadline deadline);

// A path to the peer: the id is bound to the device that leads there. ENODEV: none does; EHOSTUNREACH, ETIMEDOUT.
Result<CmId> find_path(const HostPort& peer, Deadline deadline);

// Precondition: the id has a queue pair (and its receives, if any, are posted).
// ECONNREFUSED: nobody listens, or it turned the request down; ETIMEDOUT; EPROTO: not a brick.
Result<ConnectReply> connect(const CmId& id, const ConnectRequest& request, const DeviceFacts& facts,
                             Deadline deadline);

// Something happened to an established connection since: it is over. Takes events off the channel, never waits.
bool has_ended(rdma_event_channel& channel);

// What accept and connect have in common: timers and depths. `request`: of the peer, when accepting.
void set_ack_timeout(rdma_cm_id* id);
rdma_conn_param connection_parameters(const DeviceFacts& facts, const rdma_conn_param* request);

// Moves a queue pair to the error state, from where all its work requests come back. Any thread.
void break_pair(ibv_qp* pair);

}  // namespace brickfs::verbs
