// SPDX-License-Identifier: Apache-2.0
// One accepted RDMA connection for calls, from its first message to its end, on the thread that calls serve().
// docs/protocol.md, "RDMA".
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "server/service/brick_service.h"
#include "server/service/peer_address.h"
#include "server/service/secret_guesses.h"
#include "server/verbs/session.h"
#include "transport/brick/proof.h"
#include "transport/verbs/message_channel.h"

namespace brickfs {

class VerbsConnection {
 public:
  // What every connection of a listener shares; outlives them.
  struct Common {
    BrickService& service;
    VerbsDevices& devices;
    VerbsSessions& sessions;
    const Secret& secret;
    SecretGuesses& guesses;
  };
  // Called once, by a peer that has proved that it knows the secret: it is a stranger no more. False: there are too
  // many connections.
  using Admit = std::function<bool(std::span<const std::byte> first_body)>;

  // `channel` stays the caller's.
  VerbsConnection(verbs::MessageChannel& channel, PeerAddress peer, const Nonces& nonces, const Common& common,
                  Admit admit)
      : channel_(channel), peer_(std::move(peer)), nonces_(nonces), common_(common), admit_(std::move(admit)) {}

  // Until the peer leaves, misbehaves or is cut off.
  void serve();

 private:
  using Silence = std::optional<std::chrono::milliseconds>;

  Status let_in(const verbs::Message& message);
  Status serve_open(const verbs::Message& message);
  Status serve_attach(const verbs::Message& message);
  Status answer(const verbs::Message& to, int code, std::span<const std::byte> body = {});
  Error refuse(const verbs::Message& to, int code, const Holder& holder = {});
  Error end_with(const verbs::Message& to, int code, std::span<const std::byte> body);
  Result<std::shared_ptr<VerbsSession>> open_session(const verbs::Message& message, const OpenRequest& request);
  void serve_calls(VerbsSession& session, Silence silence);
  bool serve_one(VerbsSession& session, const verbs::Message& message);

  verbs::MessageChannel& channel_;
  const PeerAddress peer_;
  const Nonces nonces_;
  const Common common_;
  const Admit admit_;
};

}  // namespace brickfs
