// SPDX-License-Identifier: Apache-2.0
// Where a peer comes from: for the log, and to count what comes from there.
#pragma once

#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <string>

namespace brickfs {

// An IPv4 address, or the network (/64) of an IPv6 one: who has one address of that has them all.
using PeerHost = std::array<std::byte, 16>;

struct PeerAddress {
  PeerHost host{};
  std::string text;  // with the port
};

PeerAddress peer_address(const sockaddr* address);

}  // namespace brickfs
