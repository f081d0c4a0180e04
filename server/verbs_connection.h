// SPDX-License-Identifier: Apache-2.0
// One accepted RDMA connection for calls, from its first message to its end, on the thread that calls serve().
// docs/protocol.md, "RDMA".
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "server/brick_service.h"
#include "server/verbs_session.h"
#include "transport/proof.h"
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
  };
  // `channel` stays the caller's.
  VerbsConnection(verbs::MessageChannel& channel, std::string peer, const Nonces& nonces, const Common& common)
      : channel_(channel), peer_(std::move(peer)), nonces_(nonces), common_(common) {}

  // Until the peer leaves, misbehaves or is cut off.
  void serve();

 private:
  using Silence = std::optional<std::chrono::milliseconds>;

  Status serve_open(const verbs::Message& message);
  Status serve_attach(const verbs::Message& message);
  Status answer(const verbs::Message& to, int code, std::span<const std::byte> body = {});
  Error refuse(const verbs::Message& to, int code, const Holder& holder = {});
  Error end_with(const verbs::Message& to, int code, std::span<const std::byte> body);
  Result<std::shared_ptr<VerbsSession>> open_session(const verbs::Message& message, const OpenRequest& request);
  void serve_calls(VerbsSession& session, Silence silence);
  bool serve_one(VerbsSession& session, const verbs::Message& message);

  verbs::MessageChannel& channel_;
  const std::string peer_;  // for the log
  const Nonces nonces_;
  const Common common_;
};

}  // namespace brickfs
