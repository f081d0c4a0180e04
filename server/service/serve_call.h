// SPDX-License-Identifier: Apache-2.0
// Calls that came over a wire, carried to a session. docs/protocol.md, "Calls".
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "server/service/brick_service.h"
#include "transport/brick/wire.h"

namespace brickfs {

// The answer's body, or the status of an answer without one. EPROTO: no such call, or malformed: the connection ends.
// `peer_gone` (may be empty): asked now and then by what takes long.
Result<std::vector<std::byte>> serve_call(ServerSession& session, wire::Kind kind, std::span<const std::byte> body,
                                          const std::function<bool()>& peer_gone);
// MAP, for transports that answer it in their own way.
Result<std::vector<Handle>> serve_map(ServerSession& session, std::span<const std::byte> body);

}  // namespace brickfs
