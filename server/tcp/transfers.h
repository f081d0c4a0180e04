// SPDX-License-Identifier: Apache-2.0
// A connection that carries transfers, served in order. docs/protocol.md, "Transfers".
#pragma once

#include "server/peers/peer_counters.h"
#include "server/peers/peer_session.h"
#include "transport/tcp/stream.h"

namespace brickfs {

// Until the peer leaves, misbehaves, stalls in the middle of a frame, or is cut off.
void serve_transfers(tcp::Stream& stream, PeerSession& session, PeerCounters& counters);

}  // namespace brickfs
