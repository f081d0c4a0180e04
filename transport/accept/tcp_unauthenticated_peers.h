// SPDX-License-Identifier: Apache-2.0
// TCP connections from being accepted to their first call. They take no thread: none of them is waited
// for, and there are few (unauthenticated_places.h).
//
// Threads: the accepting one alone.
#pragma once

#include <poll.h>

#include <cerrno>
#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "transport/accept/first_call_verdict.h"
#include "transport/accept/peer_address.h"
#include "transport/accept/unauthenticated_places.h"
#include "transport/base/result.h"
#include "transport/base/unique_fd.h"
#include "transport/brick/proof.h"
#include "transport/brick/tls_mode.h"
#include "transport/brick/volume_key.h"
#include "transport/tcp/stream.h"
#include "transport/tcp/tcp_channel.h"

namespace brickfs {

class TcpUnauthenticatedPeers {
 public:
  // One that has sent its first call, whole.
  struct Introduced {
    tcp::Stream stream;
    PeerAddress peer;
    Nonces nonces;
    Message call;
    Result<Credential> proof = Error(EPROTO, "nothing is proved yet");
  };
  // Asked as soon as the call is there, since a place is its peer's for a moment only. None: he goes.
  using Judge = std::function<std::optional<FirstCallVerdict>(const PeerAddress& peer, const Nonces& nonces,
                                                              const Message& call)>;

  // What is done of it, by whose secrets, and who is told of one who did not prove his, or (may be null) does without
  // where it is required.
  struct Tls {
    TlsMode mode = TlsMode::kOff;
    std::function<std::optional<Secret>(const PeerAddress& peer, KeyId id)> find;
    std::function<void(const PeerAddress& peer)> refused;
    std::function<void(const PeerAddress& peer)> missing;
  };

  TcpUnauthenticatedPeers(Judge judge, Tls tls);

  // True: another one went for it.
  bool add(UniqueFd fd, PeerAddress address);
  // An entry for each that something may come from; receive() looks at them, in the same order.
  void watch(std::vector<pollfd>& entries) const;
  void receive(std::span<const pollfd> entries);
  // Those whose answer is due; who has not sent a call in time goes.
  std::vector<Introduced> take_due(tcp::Deadline now);
  // take_due() has something to do then; none: there is nobody.
  std::optional<tcp::Deadline> next_due() const;

 private:
  enum class Stage { kHello, kShaking, kHeader, kBody, kComplete };  // kShaking: of TLS
  struct Peer {
    Peer(UniqueFd fd, PeerAddress address) : introduced{tcp::Stream(std::move(fd)), std::move(address), {}, {}} {}

    Introduced introduced;
    Stage stage = Stage::kHello;
    size_t expected = 0;           // bytes of this stage
    std::vector<std::byte> bytes;  // of them, so far
    tcp::Deadline due;             // of the call; then of its answer
  };
  using Peers = std::map<UnauthenticatedPlaces::Number, Peer>;

  bool receive(Peer& peer) const;
  bool go_on(Peer& peer) const;
  bool shake_hands(Peer& peer) const;
  bool welcome(Peer& peer) const;
  bool judge(Peer& peer) const;
  Peers::iterator remove(Peers::iterator at);

  const Judge judge_;
  const Tls tls_;
  UnauthenticatedPlaces places_;
  Peers peers_;
};

}  // namespace brickfs
