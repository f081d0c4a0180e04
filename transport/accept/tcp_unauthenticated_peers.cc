// SPDX-License-Identifier: Apache-2.0
#include "transport/accept/tcp_unauthenticated_peers.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "transport/accept/accept_limits.h"
#include "transport/brick/limits.h"
#include "transport/brick/wire.h"
#include "transport/tcp/socket.h"

namespace brickfs {

TcpUnauthenticatedPeers::TcpUnauthenticatedPeers(Judge judge, Tls tls)
    : judge_(std::move(judge)),
      tls_(std::move(tls)),
      places_(limits::kTcpUnauthenticated, limits::kTcpUnauthenticatedOfHost) {}

bool TcpUnauthenticatedPeers::add(UniqueFd fd, PeerAddress address) {
  const auto place = places_.enter(address.host);
  if (place.displaced) peers_.erase(*place.displaced);
  Peer& peer = peers_.try_emplace(place.number, std::move(fd), std::move(address)).first->second;
  peer.expected = sizeof(wire::Hello);
  peer.due = tcp::Clock::now() + limits::kHandshakeTimeout;
  if (!receive(peer)) remove(peers_.find(place.number));
  return place.displaced.has_value();
}

TcpUnauthenticatedPeers::Peers::iterator TcpUnauthenticatedPeers::remove(Peers::iterator at) {
  places_.leave(at->first);
  return peers_.erase(at);
}

// Who waits for his refusal says nothing more.
void TcpUnauthenticatedPeers::watch(std::vector<pollfd>& entries) const {
  for (const auto& [number, peer] : peers_) {
    if (peer.stage != Stage::kComplete) entries.push_back({peer.introduced.stream.fd(), POLLIN, 0});
  }
}

void TcpUnauthenticatedPeers::receive(std::span<const pollfd> entries) {
  for (auto at = peers_.begin(); at != peers_.end();) {
    if (at->second.stage == Stage::kComplete) {
      ++at;
      continue;
    }
    if (entries.empty()) return;
    const bool something = entries.front().revents != 0;
    entries = entries.subspan(1);
    at = something && !receive(at->second) ? remove(at) : std::next(at);
  }
}

// What has come. False: it has gone, or does not speak the protocol.
bool TcpUnauthenticatedPeers::receive(Peer& peer) const {
  std::array<std::byte, limits::kFirstBodyBytes> piece;
  while (peer.stage != Stage::kComplete) {
    if (peer.stage == Stage::kShaking) {
      if (!shake_hands(peer)) return false;
      if (peer.stage == Stage::kShaking) return true;
    }
    const size_t missing = std::min(peer.expected - peer.bytes.size(), piece.size());
    if (missing > 0) {
      const iovec part = tcp::to_iovec(std::span(piece).first(missing));
      const auto got = peer.introduced.stream.receive_some(std::span(&part, 1), tcp::Stream::Wait::kNot);
      if (!got.ok()) return got.code() == EAGAIN;
      peer.bytes.insert(peer.bytes.end(), piece.begin(), piece.begin() + static_cast<std::ptrdiff_t>(*got));
    }
    if (peer.bytes.size() == peer.expected && !go_on(peer)) return false;
  }
  return true;
}

// All bytes of a stage are there.
bool TcpUnauthenticatedPeers::go_on(Peer& peer) const {
  Introduced& introduced = peer.introduced;
  switch (peer.stage) {
    case Stage::kHello:
      if (!welcome(peer)) return false;
      peer.expected = sizeof(wire::CallHeader);
      peer.stage = introduced.stream.is_encrypted() ? Stage::kShaking : Stage::kHeader;
      break;
    case Stage::kShaking:
      break;
    case Stage::kHeader:
      introduced.call.header = load<wire::CallHeader>(peer.bytes);
      peer.expected = introduced.call.header.length_bytes;
      if (peer.expected > limits::kFirstBodyBytes) return false;
      peer.stage = Stage::kBody;
      break;
    case Stage::kBody:
      introduced.call.body = std::move(peer.bytes);
      if (!judge(peer)) return false;
      peer.stage = Stage::kComplete;
      break;
    case Stage::kComplete:
      break;
  }
  peer.bytes.clear();
  return true;
}

bool TcpUnauthenticatedPeers::judge(Peer& peer) const {
  Introduced& introduced = peer.introduced;
  auto verdict = judge_(introduced.peer, introduced.nonces, introduced.call);
  if (!verdict) return false;
  introduced.proof = std::move(verdict->proof);
  peer.due = tcp::Clock::now() + verdict->delay;
  return true;
}

// Says nothing to a peer that does not speak the protocol. So few bytes always find room in a new socket.
bool TcpUnauthenticatedPeers::welcome(Peer& peer) const {
  const auto hello = load<wire::Hello>(peer.bytes);
  if (hello.magic != wire::kMagic) return false;
  wire::Welcome welcome;
  if (tls_.mode != TlsMode::kOff) welcome.features |= wire::kTls;
  const bool encrypts = (hello.features & welcome.features & wire::kTls) != 0;
  if (tls_.mode == TlsMode::kRequire && !encrypts) welcome.status = ENOKEY;
  if (hello.version != wire::kVersion) welcome.status = EPROTO;
  Introduced& introduced = peer.introduced;
  if (welcome.status == ENOKEY && tls_.missing) tls_.missing(introduced.peer);
  introduced.nonces = {hello.nonce, random_nonce(), hello.features, welcome.features};
  welcome.nonce = introduced.nonces.server;
  const iovec part = tcp::to_iovec(bytes_of(welcome));
  const auto sent = introduced.stream.send_some(std::span(&part, 1));
  if (!sent.ok() || *sent != sizeof(welcome) || welcome.status != 0) return false;
  return !encrypts ||
         introduced.stream
             .begin_to_encrypt([this, address = introduced.peer](KeyId id) { return tls_.find(address, id); })
             .ok();
}

// Its few bytes, too, always find room.
bool TcpUnauthenticatedPeers::shake_hands(Peer& peer) const {
  const auto step = peer.introduced.stream.go_on_encrypting();
  if (step.code() == EACCES) tls_.refused(peer.introduced.peer);
  if (!step.ok() || *step == tcp::TlsSession::Step::kWrites) return false;
  if (*step == tcp::TlsSession::Step::kDone) peer.stage = Stage::kHeader;
  return true;
}

std::vector<TcpUnauthenticatedPeers::Introduced> TcpUnauthenticatedPeers::take_due(tcp::Deadline now) {
  std::vector<Introduced> due;
  for (auto at = peers_.begin(); at != peers_.end();) {
    if (at->second.due > now) {
      ++at;
      continue;
    }
    if (at->second.stage == Stage::kComplete) due.push_back(std::move(at->second.introduced));
    at = remove(at);
  }
  return due;
}

std::optional<tcp::Deadline> TcpUnauthenticatedPeers::next_due() const {
  const auto sooner = [](const auto& a, const auto& b) { return a.second.due < b.second.due; };
  const auto first = std::ranges::min_element(peers_, sooner);
  return first == peers_.end() ? std::nullopt : std::optional(first->second.due);
}

}  // namespace brickfs
