// SPDX-License-Identifier: Apache-2.0
#include "server/tcp/strangers.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "server/service/server_limits.h"
#include "transport/brick/limits.h"
#include "transport/brick/wire.h"
#include "transport/tcp/socket.h"

namespace brickfs {

TcpStrangers::TcpStrangers(Judge judge)
    : judge_(std::move(judge)), places_(limits::kTcpStrangers, limits::kTcpStrangersOfHost) {}

bool TcpStrangers::add(UniqueFd fd, PeerAddress peer) {
  const auto place = places_.enter(peer.host);
  if (place.displaced) strangers_.erase(*place.displaced);
  Stranger& stranger = strangers_[place.number];
  stranger.introduced.fd = std::move(fd);
  stranger.introduced.peer = std::move(peer);
  stranger.expected = sizeof(wire::Hello);
  stranger.due = tcp::Clock::now() + limits::kHandshakeTimeout;
  if (!receive(stranger)) remove(strangers_.find(place.number));
  return place.displaced.has_value();
}

TcpStrangers::Strangers::iterator TcpStrangers::remove(Strangers::iterator at) {
  places_.leave(at->first);
  return strangers_.erase(at);
}

// Who waits for his refusal says nothing more.
void TcpStrangers::watch(std::vector<pollfd>& entries) const {
  for (const auto& [number, stranger] : strangers_) {
    if (stranger.stage != Stage::kComplete) entries.push_back({stranger.introduced.fd.get(), POLLIN, 0});
  }
}

void TcpStrangers::receive(std::span<const pollfd> entries) {
  for (auto at = strangers_.begin(); at != strangers_.end();) {
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
bool TcpStrangers::receive(Stranger& stranger) const {
  std::array<std::byte, limits::kFirstBodyBytes> piece;
  while (stranger.stage != Stage::kComplete) {
    const size_t missing = std::min(stranger.expected - stranger.bytes.size(), piece.size());
    if (missing > 0) {
      const iovec part = tcp::to_iovec(std::span(piece).first(missing));
      const auto got = tcp::receive_some(stranger.introduced.fd.get(), std::span(&part, 1), MSG_DONTWAIT);
      if (!got.ok()) return got.code() == EAGAIN;
      stranger.bytes.insert(stranger.bytes.end(), piece.begin(), piece.begin() + static_cast<std::ptrdiff_t>(*got));
    }
    if (stranger.bytes.size() == stranger.expected && !go_on(stranger)) return false;
  }
  return true;
}

// All bytes of a stage are there.
bool TcpStrangers::go_on(Stranger& stranger) const {
  Introduced& introduced = stranger.introduced;
  switch (stranger.stage) {
    case Stage::kHello:
      if (!welcome(stranger)) return false;
      stranger.expected = sizeof(wire::CallHeader);
      stranger.stage = Stage::kHeader;
      break;
    case Stage::kHeader:
      introduced.call.header = load<wire::CallHeader>(stranger.bytes);
      stranger.expected = introduced.call.header.length_bytes;
      if (stranger.expected > limits::kFirstBodyBytes) return false;
      stranger.stage = Stage::kBody;
      break;
    case Stage::kBody:
      introduced.call.body = std::move(stranger.bytes);
      if (!judge(stranger)) return false;
      stranger.stage = Stage::kComplete;
      break;
    case Stage::kComplete:
      break;
  }
  stranger.bytes.clear();
  return true;
}

bool TcpStrangers::judge(Stranger& stranger) const {
  Introduced& introduced = stranger.introduced;
  auto verdict = judge_(introduced.peer, introduced.nonces, introduced.call);
  if (!verdict) return false;
  introduced.proof = std::move(verdict->proof);
  stranger.due = tcp::Clock::now() + verdict->delay;
  return true;
}

// Says nothing to a peer that does not speak the protocol. So few bytes always find room in a new socket.
bool TcpStrangers::welcome(Stranger& stranger) const {
  const auto hello = load<wire::Hello>(stranger.bytes);
  if (hello.magic != wire::kMagic) return false;
  stranger.introduced.nonces = {hello.nonce, random_nonce(), hello.features, wire::kFeatures};
  wire::Welcome welcome;
  welcome.status = hello.version == wire::kVersion ? 0 : EPROTO;
  welcome.nonce = stranger.introduced.nonces.server;
  const iovec part = tcp::to_iovec(bytes_of(welcome));
  const auto sent = tcp::send_some(stranger.introduced.fd.get(), std::span(&part, 1));
  return sent.ok() && *sent == sizeof(welcome) && welcome.status == 0;
}

std::vector<TcpStrangers::Introduced> TcpStrangers::take_due(tcp::Deadline now) {
  std::vector<Introduced> due;
  for (auto at = strangers_.begin(); at != strangers_.end();) {
    if (at->second.due > now) {
      ++at;
      continue;
    }
    if (at->second.stage == Stage::kComplete) due.push_back(std::move(at->second.introduced));
    at = remove(at);
  }
  return due;
}

std::optional<tcp::Deadline> TcpStrangers::next_due() const {
  const auto sooner = [](const auto& a, const auto& b) { return a.second.due < b.second.due; };
  const auto first = std::ranges::min_element(strangers_, sooner);
  return first == strangers_.end() ? std::nullopt : std::optional(first->second.due);
}

}  // namespace brickfs
