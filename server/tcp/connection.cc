// SPDX-License-Identifier: Apache-2.0
// OPEN and ATTACH; what follows them is in tcp_calls.cc and tcp_transfers.cc.
#include "server/tcp/connection.h"

#include <array>
#include <span>

#include "server/tcp/calls.h"
#include "server/tcp/transfers.h"
#include "transport/base/log.h"
#include "transport/brick/limits.h"
#include "transport/brick/refusal.h"
#include "transport/brick/wire.h"

namespace brickfs {
namespace {

// The connection's socket is its session's as long as this lives.
class SocketMembership {
 public:
  SocketMembership(TcpSession& session, int fd) : session_(session), fd_(fd), added_(session.add_socket(fd)) {}
  ~SocketMembership() {
    if (added_.ok()) session_.remove_socket(fd_);
  }
  SocketMembership(const SocketMembership&) = delete;
  SocketMembership& operator=(const SocketMembership&) = delete;
  const Status& added() const { return added_; }

 private:
  TcpSession& session_;
  const int fd_;
  const Status added_;
};

wire::CallHeader answer_header(const tcp::Frame& to, int code, size_t body_bytes) {
  wire::CallHeader header;
  header.kind = to.header.kind | wire::kReplyBit;
  header.id = to.header.id;
  header.status = static_cast<uint16_t>(code);
  header.length_bytes = static_cast<uint32_t>(body_bytes);
  return header;
}

}  // namespace

void TcpConnection::refuse_stranger(int fd, const tcp::Frame& call) {
  const auto header = answer_header(call, EACCES, 0);
  const iovec part = tcp::to_iovec(bytes_of(header));
  static_cast<void>(tcp::send_some(fd, std::span(&part, 1)).ok());
}

void TcpConnection::refuse(int fd, const Secret& secret, const Nonces& nonces, const tcp::Frame& call, int code,
                           const Holder& holder) {
  const auto body = encode_refusal(secret, nonces, wire::Kind{call.header.kind}, code, holder);
  const auto header = answer_header(call, code, body.size());
  const std::array<iovec, 2> parts = {tcp::to_iovec(bytes_of(header)), tcp::to_iovec(body)};
  static_cast<void>(tcp::send_some(fd, parts).ok());
}

Error TcpConnection::refuse(const tcp::Frame& frame, int code, const Holder& holder) const {
  refuse(fd_, secret_, nonces_, frame, code, holder);
  return Error(code, "refused");
}

void TcpConnection::serve(const tcp::Frame& call) {
  const bool opens = call.header.kind == static_cast<uint16_t>(wire::Kind::kOpen);
  const Status status = opens ? serve_open(call) : serve_attach(call);
  if (!status.ok()) log::debug("connection from {} ends: {}", peer_, status.error().what());
}

Result<std::shared_ptr<TcpSession>> TcpConnection::open_session(const tcp::Frame& frame, const OpenRequest& request) {
  auto session = std::make_shared<TcpSession>();
  const auto cut_off = [weak = std::weak_ptr(session)] {
    if (const auto alive = weak.lock()) alive->cut_off();
  };
  Holder holder;
  auto opened = service_.open_session(request, cut_off, &holder);
  if (!opened.ok()) return refuse(frame, opened.code(), holder);
  session->set_server_session(std::move(*opened));
  return session;
}

Status TcpConnection::serve_open(const tcp::Frame& frame) {
  const auto call = TRY(wire::decode<wire::OpenCall>(frame.body));
  const OpenRequest request = TRY(wire::from_call(call));
  const auto session = TRY(open_session(frame, request));
  {
    const SocketMembership membership(*session, fd_);
    if (membership.added().ok()) {
      log::info("session for {} at {} on volume {} begins", request.client_name, peer_, request.volume);
      sessions_.add(session);
      wire::OpenAnswer answer = wire::to_answer(session->server_session().description());
      answer.token = session->token();
      answer.proof = wire::prove(secret_, wire::kOpenedPurpose, nonces_, answer);
      const Status sent = tcp::send_frame(fd_, answer_header(frame, 0, sizeof(answer)), bytes_of(answer));
      if (sent.ok()) serve_calls(fd_, *session, limits::kLease);
    }
  }
  sessions_.remove(*session);
  session->end();
  log::info("session for {} at {} on volume {} ends", request.client_name, peer_, request.volume);
  return {};
}

Status TcpConnection::serve_attach(const tcp::Frame& frame) {
  const auto call = TRY(wire::decode<wire::AttachCall>(frame.body));
  const auto session = sessions_.find(call.token);
  if (session == nullptr) return refuse(frame, EACCES);
  const auto role = wire::Role{call.role};
  if (role != wire::Role::kTransfers && role != wire::Role::kCalls) return Error(EPROTO, "unknown role");
  const SocketMembership membership(*session, fd_);
  if (!membership.added().ok()) return refuse(frame, membership.added().code());
  wire::AttachAnswer answer;
  answer.proof = make_proof(secret_, wire::kAttachedPurpose, nonces_, {});
  TRY(tcp::send_frame(fd_, answer_header(frame, 0, sizeof(answer)), bytes_of(answer)));
  if (role == wire::Role::kTransfers) {
    serve_transfers(fd_, *session);
  } else {
    serve_calls(fd_, *session, std::nullopt);
  }
  return {};
}

}  // namespace brickfs
