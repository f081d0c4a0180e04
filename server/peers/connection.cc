// SPDX-License-Identifier: Apache-2.0
#include "server/peers/connection.h"

#include <chrono>
#include <cstring>

#include "transport/base/log.h"
#include "transport/base/printable.h"
#include "transport/brick/administration.h"
#include "transport/brick/limits.h"
#include "transport/brick/refusal.h"

namespace brickfs {
namespace {

using std::chrono::steady_clock;
using wire::Kind;

// The channel is its session's as long as this lives. `ended` becomes true if the session ends with that.
class ChannelMembership {
 public:
  ChannelMembership(PeerSessions& sessions, PeerSession& session, Channel& channel, bool keeps, bool& ended)
      : sessions_(sessions),
        session_(session),
        channel_(channel),
        added_(session.add_channel(channel, keeps)),
        ended_(ended) {}
  ~ChannelMembership() {
    ended_ = session_.remove_channel(channel_);  // also one that was not added: the session may have no other
    if (ended_) sessions_.remove(session_);
  }
  ChannelMembership(const ChannelMembership&) = delete;
  ChannelMembership& operator=(const ChannelMembership&) = delete;
  const Status& added() const { return added_; }

 private:
  PeerSessions& sessions_;
  PeerSession& session_;
  Channel& channel_;
  const Status added_;
  bool& ended_;
};

void log_keys(const std::string& peer, const AdminRequest& request, int status) {
  if (request.action == AdminAction::kListKeys) return;
  const bool adds = request.action == AdminAction::kAddKey;
  const std::string key = format_key_id(request.key.id);
  if (status != 0) {
    return log::warn("key {} of volume {} was not {}, as the administrator at {} asked: {}", key,
                     printable(request.volume), adds ? "added" : "removed", peer, std::strerror(status));
  }
  if (!adds) return log::info("key {} of volume {} was removed by the administrator at {}", key, request.volume, peer);
  log::info("key {} of volume {}, {}, was added by the administrator at {}", key, request.volume,
            request.key.rights == KeyRights::kReadOnly ? "for reading" : "for reading and writing", peer);
}

// Who changed what, for those who look for it later.
void log_administration(const std::string& peer, const AdminRequest& request, int status) {
  if (is_about_keys(request.action)) return log_keys(peer, request, status);
  if (request.action == AdminAction::kList || request.action == AdminAction::kClients) return;
  const char* const action = request.action == AdminAction::kCreate   ? "made"
                             : request.action == AdminAction::kResize ? "given another size"
                                                                      : "removed";
  if (status == 0) return log::info("volume {} was {} by the administrator at {}", request.volume, action, peer);
  log::warn("volume {} was not {}, as the administrator at {} asked: {}", printable(request.volume), action, peer,
            std::strerror(status));
}

}  // namespace

void Connection::refuse_unauthenticated(Channel& channel, const Message& call, int code) {
  if (channel.send(answer_header(call.header, code), {}).ok()) static_cast<void>(channel.drain());
}

Error Connection::refuse(Channel& channel, const Secret& secret, const Nonces& nonces, const Message& call, int code,
                         const Holder& holder) {
  const auto body = encode_refusal(secret, nonces, Kind{call.header.kind}, code, holder);
  if (channel.send(answer_header(call.header, code), body).ok()) static_cast<void>(channel.drain());
  return Error(code, "refused");
}

Error Connection::refuse(const Message& call, int code, const Holder& holder) {
  common_.counters.refused(refused_with(code));
  return refuse(channel_, proved_.secret, nonces_, call, code, holder);
}

Status Connection::answer(const Message& to, int code, std::span<const std::byte> body) {
  return channel_.send(answer_header(to.header, code), body);
}

Status Connection::answer_proved(const Message& to, std::string_view purpose, std::span<const std::byte> body) {
  return answer(to, 0, wire::encode(body, make_proof(proved_.secret, purpose, nonces_, body)));
}

void Connection::serve(const Message& call) {
  const auto kind = Kind{call.header.kind};
  const Status status = kind == Kind::kOpen         ? serve_open(call)
                        : kind == Kind::kAdminister ? serve_administration(call)
                                                    : serve_attach(call);
  if (!status.ok()) log::debug("connection from {} ends: {}", peer_, status.error().what());
}

Result<std::shared_ptr<PeerSession>> Connection::open_session(const Message& message, const OpenRequest& request) {
  auto session = std::make_shared<PeerSession>(common_.transport.make_access(), proved_);
  Holder holder;
  const auto begin = steady_clock::now();
  auto opened = common_.service.open_session(request, PeerSession::end_of(session), &holder, peer_has_gone());
  common_.counters.call(Kind::kOpen, steady_clock::now() - begin, !opened.ok());
  if (opened.code() == ECANCELED) return opened.error();  // nobody is there to be refused
  if (!opened.ok()) return refuse(message, opened.code(), holder);
  session->set_server_session(std::move(*opened), request.volume);
  return session;
}

Status Connection::serve_open(const Message& message) {
  const OpenRequest request = TRY(wire::from_call(TRY(wire::decode<wire::OpenCall>(message.body))));
  TRY(channel_.reserve(wire::kBodyBytes));
  const auto session = TRY(open_session(message, request));
  bool ended = false;
  {
    const ChannelMembership membership(common_.sessions, *session, channel_, true, ended);
    if (membership.added().ok()) {
      log::info("session for {} at {} on volume {} begins", request.client_name, peer_, request.volume);
      common_.sessions.add(session);
      wire::OpenAnswer opened = wire::to_answer(session->server_session().description());
      opened.token = session->token();
      const auto told = wire::grown_bytes_of(opened, nonces_.features());
      if (answer_proved(message, wire::kOpenedPurpose, told).ok()) serve_calls(*session, true);
    }
  }
  log::info("{} {} at {} on volume {} ends", ended ? "session for" : "connection of", request.client_name, peer_,
            request.volume);
  return {};
}

Status Connection::serve_attach(const Message& message) {
  const auto call = TRY(wire::decode<wire::AttachCall>(message.body));
  const auto session = common_.sessions.find(call.token);
  common_.counters.call(Kind::kAttach, {}, session == nullptr);  // takes no time
  if (session == nullptr) return refuse(message, EACCES);
  const auto role = wire::Role{call.role};
  if (!common_.transport.knows(role)) return Error(EPROTO, "unknown role");
  TRY(channel_.reserve(wire::kBodyBytes));
  const bool keeps = role == wire::Role::kKeeper;
  bool ended = false;
  const ChannelMembership membership(common_.sessions, *session, channel_, keeps, ended);
  if (!membership.added().ok()) return refuse(message, membership.added().code());
  TRY(answer_proved(message, wire::kAttachedPurpose, {}));
  if (role == wire::Role::kTransfers) {
    common_.transport.serve_transfers(channel_, *session);
  } else {
    serve_calls(*session, keeps);
  }
  return {};
}

// The one call of this connection.
Status Connection::serve_administration(const Message& message) {
  const bool about_keys = message.body.size() == sizeof(wire::KeyCall);
  const AdminRequest request =
      about_keys ? TRY(from_key_call(TRY(wire::decode<wire::KeyCall>(message.body)), proved_.secret, nonces_))
                 : TRY(from_call(TRY(wire::decode<wire::AdminCall>(message.body))));
  TRY(channel_.reserve(wire::kBodyBytes));
  const auto begin = steady_clock::now();
  AdminAnswer answer = common_.service.administer(request, peer_has_gone());
  common_.counters.call(Kind::kAdminister, steady_clock::now() - begin, answer.status != 0);
  log_administration(peer_, request, answer.status);
  const bool knows_followers = (nonces_.features() & wire::kNotifications) != 0;
  for (ClientStatus& client : answer.clients) {
    if (client.mode == OpenMode::kFollow && !knows_followers) client.mode = OpenMode::kReadOnly;
  }
  const auto body = encode(answer);
  if (answer.status == 0) {
    TRY(answer_proved(message, wire::kAdministeredPurpose, body));
  } else {
    TRY(this->answer(message, answer.status,
                     encode_refusal_with(proved_.secret, nonces_, Kind::kAdminister, answer.status, body)));
  }
  return channel_.drain();
}

void Connection::serve_calls(PeerSession& session, bool keeps) {
  while (await_call(keeps) && serve_one(session)) {
  }
}

// False: the connection has ended, or must. The session's others tell whether the client is there, but not whether the
// path of this one is.
bool Connection::await_call(bool keeps) {
  while (true) {
    const Status come = channel_.wait(steady_clock::now() + limits::kLease);
    if (come.ok()) return true;
    if (keeps || come.code() != ETIMEDOUT || !channel_.probe().ok()) return false;
  }
}

// False: the connection has ended, or must.
bool Connection::serve_one(PeerSession& session) {
  const auto message = channel_.receive(steady_clock::now() + limits::kProgressTimeout);
  if (!message.ok()) return false;
  const auto kind = Kind{message->header.kind};
  ServerSession& server = session.server_session();
  server.touch();
  if (kind == wire::Kind::kEcho)
    return message->body.size() <= wire::kEchoBytes && answer(*message, 0, message->body).ok();
  const auto run = [&]() -> Result<calls::Answer> {
    const auto request = TRY(calls::decode_request(kind, message->body));
    return session.call(message->header.id, request, peer_has_gone());
  };
  const auto begin = steady_clock::now();
  const auto result = run();
  const bool waited = kind == Kind::kWait;  // for others, whatever the client and the brick do meanwhile
  common_.counters.call(kind, waited ? steady_clock::duration() : steady_clock::now() - begin, !result.ok());
  if (!waited) server.touch();
  if (result.code() == ESTALE) return false;  // a session that ends is cut off, and says nothing any more
  const Status sent = result.ok() ? answer(*message, 0, calls::encode(*result)) : answer(*message, result.code());
  if (!sent.ok()) return false;
  if (result.code() != EPROTO && kind != Kind::kClose) return true;
  static_cast<void>(channel_.drain());
  return false;
}

}  // namespace brickfs
