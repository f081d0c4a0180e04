// SPDX-License-Identifier: Apache-2.0
// The brick interface over TCP (docs/protocol.md): the same calls as frames; payload goes straight between the socket
// and the caller's slices.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "transport/brick/brick.h"
#include "transport/brick/client_secret.h"
#include "transport/brick/source.h"

namespace brickfs {

std::unique_ptr<Brick> make_tcp_brick(const std::string& host, uint16_t port, const ClientSecret& secret);
// Of a brick with several addresses, which are asked for at each open() and tried in their order. Each may take the
// connect and handshake timeouts.
std::unique_ptr<Brick> make_tcp_brick(std::function<std::vector<HostPort>()> addresses, const ClientSecret& secret);

}  // namespace brickfs
