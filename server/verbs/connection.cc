// SPDX-License-Identifier: Apache-2.0
#include "server/verbs/connection.h"

#include "server/service/first_call.h"
#include "server/service/serve_call.h"
#include "transport/base/log.h"
#include "transport/brick/limits.h"
#include "transport/brick/refusal.h"
#include "transport/brick/wire.h"

namespace brickfs {
namespace {

using verbs::Message;
using wire::Kind;
using Body = std::vector<std::byte>;

constexpr std::chrono::hours kForEver{24 * 365};

// The channel is its session's as long as this lives.
class ChannelMembership {
 public:
  ChannelMembership(VerbsSessions& sessions, VerbsSession& session, verbs::MessageChannel& channel, bool keeps)
      : sessions_(sessions), session_(session), channel_(channel), added_(session.add_channel(channel, keeps)) {}
  ~ChannelMembership() {
    // Also one that was not added: the session may have no other.
    if (session_.remove_channel(channel_)) sessions_.remove(session_);
  }
  ChannelMembership(const ChannelMembership&) = delete;
  ChannelMembership& operator=(const ChannelMembership&) = delete;
  const Status& added() const { return added_; }

 private:
  VerbsSessions& sessions_;
  VerbsSession& session_;
  verbs::MessageChannel& channel_;
  const Status added_;
};

Result<Body> dispatch(VerbsSession& session, const verbs::MessageChannel& channel, uint64_t id, Kind kind,
                      std::span<const std::byte> body) {
  const auto peer_gone = [&channel] { return channel.is_shut_down(); };
  ServerSession& server = session.server_session();
  VerbsAccess& access = *session.access();
  switch (kind) {
    case Kind::kMap:
      return access.describe(TRY(serve_map(server, body)));
    case Kind::kAlloc:
    case Kind::kFree:
      TRY(session.once(id, [&]() -> Status {
        TRY(serve_call(server, kind, body, peer_gone));
        return {};
      }));
      return Body();
    case Kind::kLane:
      if (!body.empty()) return Error(EPROTO, "LANE has no body");
      return wire::encode(bytes_of(TRY(access.offer_lane())));
    case Kind::kDetach:
      access.detach(TRY(wire::decode<verbs::DetachCall>(body)).lanes);
      return Body();
    case Kind::kKeys: {
      const auto call = TRY(wire::decode<verbs::KeysCall>(body));
      if (call.lane >= limits::kLanesPerSession) return Error(EPROTO, "no such lane");
      return access.keys_of(call);
    }
    default:
      return serve_call(server, kind, body, peer_gone);
  }
}

}  // namespace

void VerbsConnection::serve() {
  const auto run = [&]() -> Status {
    const Message message = TRY(channel_.receive(verbs::Clock::now() + limits::kHandshakeTimeout));
    TRY(let_in(message));
    return message.header.kind == static_cast<uint16_t>(Kind::kOpen) ? serve_open(message) : serve_attach(message);
  };
  const Status status = run();
  if (!status.ok()) log::debug("RDMA connection from {} ends: {}", peer_.text, status.error().what());
}

// A stranger who proves that he knows the secret.
Status VerbsConnection::let_in(const Message& message) {
  const uint16_t kind = message.header.kind;
  const auto delay = delay_of_answer(common_.guesses, peer_.host, kind, message.body, [this](const wire::Token& token) {
    return common_.sessions.find(token) != nullptr;
  });
  if (delay.count() > 0) {
    const auto more = channel_.receive(verbs::Clock::now() + delay);
    if (more.ok()) return Error(EPROTO, "a call before the answer to the first");
    if (!more.error().is(ETIMEDOUT)) return more.error();
  }
  const Status proved = check_first_call(common_.secret, nonces_, kind, message.body);
  if (proved.code() == EACCES) {
    note_guess(common_.guesses, peer_);
    return end_with(message, EACCES, {});  // proves nothing: a proof is something to try guesses of the secret on
  }
  TRY(proved);
  if (admit_(message.body)) return {};
  log::warn("too many connections: {} is turned away", peer_.text);
  return refuse(message, EUSERS);
}

Status VerbsConnection::answer(const Message& to, int code, std::span<const std::byte> body) {
  wire::CallHeader header;
  header.kind = to.header.kind | wire::kReplyBit;
  header.id = to.header.id;
  header.status = static_cast<uint16_t>(code);
  header.length_bytes = static_cast<uint32_t>(body.size());
  return channel_.send(header, body);
}

// A peer that has proved that it knows the secret.
Error VerbsConnection::refuse(const Message& to, int code, const Holder& holder) {
  return end_with(to, code, encode_refusal(common_.secret, nonces_, Kind{to.header.kind}, code, holder));
}

Error VerbsConnection::end_with(const Message& to, int code, std::span<const std::byte> body) {
  const Status sent = answer(to, code, body);
  if (!sent.ok()) return sent.error();
  static_cast<void>(channel_.drain());
  return Error(code, "refused");
}

Result<std::shared_ptr<VerbsSession>> VerbsConnection::open_session(const Message& message,
                                                                    const OpenRequest& request) {
  auto session = std::make_shared<VerbsSession>(common_.devices);
  const auto cut_off = [weak = std::weak_ptr(session), access = session->access()] {
    access->cut_off();
    if (const auto alive = weak.lock()) alive->cut_off();
  };
  Holder holder;
  auto opened = common_.service.open_session(request, cut_off, session->access(), &holder);
  if (!opened.ok()) return refuse(message, opened.code(), holder);
  session->set_server_session(std::move(*opened));
  return session;
}

Status VerbsConnection::serve_open(const Message& message) {
  const auto call = TRY(wire::decode<wire::OpenCall>(message.body));
  const OpenRequest request = TRY(wire::from_call(call));
  TRY(channel_.reserve(wire::kBodyBytes));
  const auto session = TRY(open_session(message, request));
  {
    const ChannelMembership membership(common_.sessions, *session, channel_, true);
    if (membership.added().ok()) {
      log::info("session for {} at {} on volume {} begins", request.client_name, peer_.text, request.volume);
      common_.sessions.add(session);
      wire::OpenAnswer opened = wire::to_answer(session->server_session().description());
      opened.token = session->token();
      opened.proof = wire::prove(common_.secret, wire::kOpenedPurpose, nonces_, opened);
      if (answer(message, 0, bytes_of(opened)).ok()) serve_calls(*session, limits::kLease);
    }
  }
  log::info("connection of {} at {} on volume {} ends", request.client_name, peer_.text, request.volume);
  return {};
}

Status VerbsConnection::serve_attach(const Message& message) {
  const auto call = TRY(wire::decode<wire::AttachCall>(message.body));
  const auto session = common_.sessions.find(call.token);
  if (session == nullptr) return refuse(message, EACCES);
  const auto role = wire::Role{call.role};
  if (role != wire::Role::kCalls && role != wire::Role::kKeeper) return Error(EPROTO, "unknown role");
  TRY(channel_.reserve(wire::kBodyBytes));
  const ChannelMembership membership(common_.sessions, *session, channel_, role == wire::Role::kKeeper);
  if (!membership.added().ok()) return refuse(message, membership.added().code());
  wire::AttachAnswer attached;
  attached.proof = make_proof(common_.secret, wire::kAttachedPurpose, nonces_, {});
  TRY(answer(message, 0, bytes_of(attached)));
  serve_calls(*session, role == wire::Role::kKeeper ? Silence(limits::kLease) : std::nullopt);
  return {};
}

void VerbsConnection::serve_calls(VerbsSession& session, Silence silence) {
  while (true) {
    const auto message =
        channel_.receive(verbs::Clock::now() + (silence ? std::chrono::milliseconds(*silence) : kForEver));
    if (!message.ok() || !serve_one(session, *message)) return;
  }
}

// False: the connection has ended, or must.
bool VerbsConnection::serve_one(VerbsSession& session, const Message& message) {
  const auto kind = Kind{message.header.kind};
  session.server_session().touch();
  const auto body = dispatch(session, channel_, message.header.id, kind, message.body);
  session.server_session().touch();
  if (body.code() == ESTALE) return false;  // a session that ends is cut off, and says nothing any more
  const Status sent =
      answer(message, body.code(), body.ok() ? std::span<const std::byte>(*body) : std::span<const std::byte>());
  if (!sent.ok()) return false;
  if (body.code() != EPROTO && kind != Kind::kClose) return true;
  static_cast<void>(channel_.drain());
  return false;
}

}  // namespace brickfs
