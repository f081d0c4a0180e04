// SPDX-License-Identifier: Apache-2.0
// A connection that carries calls, served one after the other. docs/protocol.md, "Calls".
#pragma once

#include <chrono>
#include <optional>

#include "server/tcp/session.h"

namespace brickfs {

// Until the peer leaves, misbehaves, closes the session, is cut off, or has been silent for `silence` (if bounded).
void serve_calls(int fd, TcpSession& session, std::optional<std::chrono::milliseconds> silence);

}  // namespace brickfs
