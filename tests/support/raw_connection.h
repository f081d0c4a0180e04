// SPDX-License-Identifier: Apache-2.0
// A tcp client's handshakes one by one, for tests that speak for themselves.
#pragma once

#include <fcntl.h>

#include <memory>
#include <utility>

#include "transport/brick/proof.h"
#include "transport/brick/source.h"
#include "transport/remote/call_channel.h"
#include "transport/remote/handshake.h"
#include "transport/tcp/greet.h"
#include "transport/tcp/stream.h"
#include "transport/tcp/tcp_channel.h"

namespace brickfs::testing {

// The same connection, in the clear.
inline tcp::Stream stream_of(int fd) { return tcp::Stream(UniqueFd(::fcntl(fd, F_DUPFD_CLOEXEC, 0))); }

struct RawPeer {
  HostPort address;
  Secret secret;
};

struct RawSession {
  std::unique_ptr<tcp::TcpChannel> channel;
  wire::Token token{};
};

inline Result<RawSession> raw_open(const RawPeer& peer, const OpenRequest& request, Deadline latest) {
  auto greeted = TRY(tcp::greet(peer.address, latest));
  const Opened opened =
      TRY(open_session(*greeted.channel, greeted.nonces, peer.secret, request, nullptr, greeted.deadline));
  return RawSession{std::move(greeted.channel), opened.token};
}

// For transfers.
inline Result<UniqueFd> raw_attach(const RawPeer& peer, const wire::Token& token, Deadline latest) {
  auto greeted = TRY(tcp::greet(peer.address, latest));
  TRY(attach(*greeted.channel, greeted.nonces, peer.secret, token, wire::Role::kTransfers, greeted.deadline));
  return UniqueFd(::fcntl(greeted.channel->fd(), F_DUPFD_CLOEXEC, 0));
}

}  // namespace brickfs::testing
