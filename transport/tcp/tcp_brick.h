// SPDX-License-Identifier: Apache-2.0
// The brick interface over TCP (docs/protocol.md): the same calls as frames; payload goes straight between the socket
// and the caller's slices.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "transport/brick.h"
#include "transport/proof.h"

namespace brickfs {

std::unique_ptr<Brick> make_tcp_brick(const std::string& host, uint16_t port, const Secret& secret);

}  // namespace brickfs
