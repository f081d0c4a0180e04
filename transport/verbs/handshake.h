// SPDX-License-Identifier: Apache-2.0
// The client's first words on RDMA connections. docs/protocol.md, "RDMA".
#pragma once

#include <memory>

#include "transport/base/result.h"
#include "transport/brick/brick.h"
#include "transport/brick/proof.h"
#include "transport/brick/source.h"
#include "transport/brick/wire.h"
#include "transport/verbs/cm.h"
#include "transport/verbs/lane.h"
#include "transport/verbs/message_channel.h"

namespace brickfs::verbs {

struct Opened {
  std::unique_ptr<MessageChannel> channel;  // carries the session's calls
  ibv_context* device = nullptr;            // that leads there
  Session session;
  wire::Token token{};
};

// A session's first connection. Errors as Brick::open(); EACCES also when what answers cannot prove that it knows the
// secret, EKEYREJECTED when what refuses cannot. Never beyond `latest`.
Result<Opened> open_session(const HostPort& address, const Secret& secret, const OpenRequest& request, Holder* holder,
                            Deadline latest);
// A further connection for calls. EACCES: not its token, or the session has ended.
Result<std::unique_ptr<MessageChannel>> attach(const HostPort& address, const Secret& secret, const wire::Token& token,
                                               wire::Role role, Deadline latest);
// Brings in the ticket that LANE answered.
Result<Lane::Opened> open_lane(const HostPort& address, const LaneAnswer& offer, LocalMemory& memory,
                               ibv_comp_channel* completions, Deadline latest);

}  // namespace brickfs::verbs
