// SPDX-License-Identifier: Apache-2.0
#include "transport/accept/peer_address.h"

#include <arpa/inet.h>
#include <fmt/core.h>
#include <netinet/in.h>

#include <cstring>

namespace brickfs {
namespace {

constexpr size_t kNetworkBytes = 8;  // of an IPv6 address
constexpr size_t kMappedBytes = 12;  // ::ffff: in front of an IPv4 address

}  // namespace

PeerAddress peer_address(const sockaddr* address) {
  PeerAddress peer;
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (address->sa_family == AF_INET6) {
    const auto* v6 = reinterpret_cast<const sockaddr_in6*>(address);
    const bool mapped = IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr);
    std::memcpy(peer.host.data(), &v6->sin6_addr, mapped ? sizeof(v6->sin6_addr) : kNetworkBytes);
    ::inet_ntop(AF_INET6, &v6->sin6_addr, text.data(), text.size());
    peer.text = fmt::format("[{}]:{}", text.data(), ntohs(v6->sin6_port));
    return peer;
  }
  const auto* v4 = reinterpret_cast<const sockaddr_in*>(address);
  peer.host[kMappedBytes - 2] = peer.host[kMappedBytes - 1] = std::byte{0xff};
  std::memcpy(peer.host.data() + kMappedBytes, &v4->sin_addr, sizeof(v4->sin_addr));
  ::inet_ntop(AF_INET, &v4->sin_addr, text.data(), text.size());
  peer.text = fmt::format("{}:{}", text.data(), ntohs(v4->sin_port));
  return peer;
}

}  // namespace brickfs
