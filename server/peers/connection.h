// SPDX-License-Identifier: Apache-2.0
// One connection of a peer that has proved that it knows the secret, from its first call to its end, on the thread that
// calls serve(). docs/protocol.md, "Calls".
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "server/peers/peer_counters.h"
#include "server/peers/peer_session.h"
#include "server/service/brick_service.h"
#include "transport/brick/channel.h"
#include "transport/brick/proof.h"
#include "transport/brick/volume_key.h"

namespace brickfs {

// What a transport has of its own on the brick's side. Threads: any.
class PeerTransport {
 public:
  virtual ~PeerTransport() = default;
  // By which devices of a session's peer reach memory; null: they do not.
  virtual std::shared_ptr<RemoteAccess> make_access() = 0;
  // What further connections of a session may be for.
  virtual bool knows(wire::Role role) const = 0;
  // A connection for transfers, until it ends. Only if it knows such.
  virtual void serve_transfers(Channel& channel, PeerSession& session) = 0;
};

class Connection {
 public:
  // What the connections of a listener share; outlives them.
  struct Common {
    BrickService& service;
    PeerSessions& sessions;
    PeerTransport& transport;
    PeerCounters& counters;
  };

  // Answers a first call with a refusal. An unauthenticated peer gets no proof: it would be something to try guesses of
  // the secret on.
  static void refuse_unauthenticated(Channel& channel, const Message& call, int code);
  static Error refuse(Channel& channel, const Secret& secret, const Nonces& nonces, const Message& call, int code,
                      const Holder& holder = {});

  // `channel` stays the caller's. `peer`: for the log.
  Connection(Channel& channel, std::string peer, const Nonces& nonces, Credential proved, const Common& common)
      : channel_(channel), peer_(std::move(peer)), nonces_(nonces), proved_(std::move(proved)), common_(common) {}

  // Until the peer leaves, misbehaves or is cut off. Precondition: the call's proof is right.
  void serve(const Message& call);

 private:
  Status serve_open(const Message& message);
  Status serve_attach(const Message& message);
  Status serve_administration(const Message& message);
  Status answer(const Message& to, int code, std::span<const std::byte> body = {});
  Status answer_proved(const Message& to, std::string_view purpose, std::span<const std::byte> body);
  Error refuse(const Message& call, int code, const Holder& holder = {});
  Result<std::shared_ptr<PeerSession>> open_session(const Message& message, const OpenRequest& request);
  // `keeps`: the session, which ends when its client is silent for its lease.
  void serve_calls(PeerSession& session, bool keeps);
  bool await_call(bool keeps);
  bool serve_one(PeerSession& session);
  // Nobody waits for the answer to the call under way. Uses the channel: asked on this thread.
  BrickService::Abandoned peer_has_gone() {
    return [this] { return channel_.peer_has_gone(); };
  }

  Channel& channel_;
  const std::string peer_;
  const Nonces nonces_;
  const Credential proved_;
  const Common common_;
};

}  // namespace brickfs
