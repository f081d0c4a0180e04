// SPDX-License-Identifier: Apache-2.0
#include "transport/fabric/connector.h"

#include <netdb.h>
#include <sys/socket.h>

#include <array>
#include <cstdlib>
#include <memory>
#include <utility>

#include "transport/base/log.h"
#include "transport/brick/limits.h"
#include "transport/fabric/queue_pair.h"
#include "transport/tcp/greet.h"
#include "transport/tcp/tcp_channel.h"

namespace brickfs::fabric {
namespace {

// One end of a connection, in numbers: of `::ffff:192.0.2.1` the last four.
Result<HostPort> numeric_end(int fd, int (*name_of)(int, sockaddr*, socklen_t*)) {
  sockaddr_storage address{};
  socklen_t length = sizeof(address);
  auto* const raw = reinterpret_cast<sockaddr*>(&address);
  if (name_of(fd, raw, &length) != 0) return errno_error("address of a connection");
  std::array<char, NI_MAXHOST> host{};
  std::array<char, NI_MAXSERV> port{};
  if (::getnameinfo(raw, length, host.data(), host.size(), port.data(), port.size(), NI_NUMERICHOST | NI_NUMERICSERV) !=
      0)
    return Error(EADDRNOTAVAIL, "address of a connection");
  std::string text = host.data();
  constexpr std::string_view kMapped = "::ffff:";
  if (text.starts_with(kMapped) && text.find('.') != std::string::npos) text.erase(0, kMapped.size());
  return HostPort{text, static_cast<uint16_t>(std::atoi(port.data()))};
}

tcp::Stream& stream_of(Channel& calls) { return static_cast<tcp::TcpChannel&>(calls).stream(); }

}  // namespace

Result<Greeted<Channel>> Connector::greet(const HostPort& address, Deadline latest, TlsMode tls, const Secret& secret) {
  auto greeted = TRY(tcp::greet(address, latest, tls, secret));
  tcp::configure(greeted.channel->fd());
  return Greeted<Channel>{std::move(greeted.channel), greeted.nonces, greeted.deadline};
}

std::string Connector::device_of(Channel& calls) const {
  const tcp::Stream& stream = stream_of(calls);
  const auto brick = numeric_end(stream.fd(), ::getpeername);
  return (brick.ok() ? brick->host : "") + (stream.is_encrypted() ? ", calls by TLS 1.3" : "");
}

Status Connector::find_way(const HostPort& address, Deadline latest) {
  const auto connected = tcp::connect_to(address.host, address.port, latest);
  return connected.ok() ? Status() : Status(connected.error());
}

Result<onesided::Connected> Connector::connect(const onesided::Place& place, Deadline) {
  const int fd = stream_of(place.calls).fd();
  const HostPort brick = TRY(numeric_end(fd, ::getpeername));
  const HostPort here = TRY(numeric_end(fd, ::getsockname));
  const calls::Endpoint wanted{provider_, brick.host, brick.port};
  const auto offer = std::get<calls::EndpointOffer>(TRY(place.ask(wanted)));
  place.offered(offer.pair);
  ClientDevice* const device = TRY(ClientDevice::find(memory_, offer.provider, here.host));
  auto pair = TRY(QueuePair::open(offer, *device, memory_));
  return onesided::Connected{nullptr, std::move(pair), device->traits().name};
}

}  // namespace brickfs::fabric
