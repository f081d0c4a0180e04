// SPDX-License-Identifier: Apache-2.0
// Greeting, OPEN and ATTACH; what follows them is in tcp_calls.cc and tcp_transfers.cc.
#include "server/tcp_connection.h"

#include <cstring>

#include "server/tcp_calls.h"
#include "server/tcp_transfers.h"
#include "transport/base/log.h"
#include "transport/limits.h"
#include "transport/refusal.h"
#include "transport/wire.h"

namespace brickfs {
namespace {


// The connection's socket is its session's as long as this lives.
class SocketMembership {
 public:
  SocketMembership(TcpSession& session, int fd) : session_(session), fd_(fd), member_(session.add_socket(fd)) {}
  ~SocketMembership() {
    if (member_) session_.remove_socket(fd_);
  }
  SocketMembership(const SocketMembership&) = delete;
  SocketMembership& operator=(const SocketMembership&) = delete;
  explicit operator bool() const { return member_; }

 private:
  TcpSession& session_;
  const int fd_;
  const bool member_;
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

void TcpConnection::serve() {
  const auto deadline = tcp::Clock::now() + limits::kHandshakeTimeout;
  const auto run = [&]() -> Status {
    TRY(greet(deadline));
    const tcp::Frame frame = TRY(tcp::receive_frame(fd_, deadline, limits::kFirstBodyBytes));
    if (frame.header.kind == static_cast<uint16_t>(wire::Kind::kOpen)) return serve_open(frame);
    if (frame.header.kind == static_cast<uint16_t>(wire::Kind::kAttach)) return serve_attach(frame);
    return Error(EPROTO, "neither OPEN nor ATTACH");
  };
  const Status status = run();
  if (!status.ok()) log::debug("connection from {} ends: {}", peer_, status.error().what());
}

Status TcpConnection::greet(tcp::Deadline deadline) {
  wire::Hello hello;
  TRY(tcp::receive_before(fd_, std::as_writable_bytes(std::span(&hello, 1)), deadline));
  if (hello.magic != wire::kMagic) return Error(EPROTO, "not a client of ours");
  nonces_ = {hello.nonce, random_nonce()};
  wire::Welcome welcome;
  welcome.status = hello.version == wire::kVersion ? 0 : EPROTO;
  welcome.nonce = nonces_.server;
  iovec part = tcp::to_iovec(bytes_of(welcome));
  TRY(tcp::send_all(fd_, std::span(&part, 1)));
  if (welcome.status != 0) return Error(EPROTO, "another protocol version");
  return {};
}

// A peer that has proved that it knows the secret.
Error TcpConnection::refuse(const tcp::Frame& frame, int code, const Holder& holder) {
  const auto body = encode_refusal(secret_, nonces_, wire::Kind{frame.header.kind}, code, holder);
  const Status sent = tcp::send_frame(fd_, answer_header(frame, code, body.size()), body);
  return sent.ok() ? Error(code, "refused") : sent.error();
}

// Proves nothing: a proof is something to try guesses of the secret on.
Error TcpConnection::refuse_stranger(const tcp::Frame& frame) {
  const Status sent = tcp::send_frame(fd_, answer_header(frame, EACCES, 0), {});
  return sent.ok() ? Error(EACCES, "refused") : sent.error();
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
  if (!same_bytes(wire::prove(secret_, wire::kOpenPurpose, nonces_, call), call.proof)) {
    log::warn("{} was refused: its secret is wrong or missing", peer_);
    return refuse_stranger(frame);
  }
  const OpenRequest request = TRY(wire::from_call(call));
  const auto session = TRY(open_session(frame, request));
  {
    const SocketMembership membership(*session, fd_);
    if (membership) {
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
  if (!same_bytes(wire::prove(secret_, wire::kAttachPurpose, nonces_, call), call.proof)) return refuse_stranger(frame);
  if (session == nullptr) return refuse(frame, EACCES);
  const auto role = wire::Role{call.role};
  if (role != wire::Role::kTransfers && role != wire::Role::kCalls) return Error(EPROTO, "unknown role");
  const SocketMembership membership(*session, fd_);
  if (!membership) return refuse(frame, ENOTCONN);
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
