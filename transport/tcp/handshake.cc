// SPDX-License-Identifier: Apache-2.0
#include "transport/tcp/handshake.h"

#include <algorithm>

#include "transport/brick/limits.h"
#include "transport/brick/refusal.h"
#include "transport/tcp/frame.h"

namespace brickfs::tcp {
namespace {

struct Greeted {
  UniqueFd fd;
  Nonces nonces;
  Deadline deadline;  // of the whole handshake
};

Result<Greeted> greet(const Peer& peer, Deadline latest) {
  UniqueFd fd =
      TRY(connect_to(peer.host, peer.port, std::min<Deadline>(latest, Clock::now() + limits::kConnectTimeout)));
  Greeted greeted{
      std::move(fd), {random_nonce(), {}}, std::min<Deadline>(latest, Clock::now() + limits::kHandshakeTimeout)};
  wire::Hello hello;
  hello.nonce = greeted.nonces.client;
  iovec part = to_iovec(bytes_of(hello));
  TRY(send_all(greeted.fd.get(), std::span(&part, 1)));
  wire::Welcome welcome;
  TRY(receive_before(greeted.fd.get(), std::as_writable_bytes(std::span(&welcome, 1)), greeted.deadline));
  if (welcome.magic != wire::kMagic) return Error(EPROTO, "what answers there is not a brick");
  // Nobody has proved anything yet, so no word of it ends a mount.
  if (welcome.status != 0 || welcome.version != wire::kVersion)
    return Error(EPROTO, "the brick speaks another protocol version");
  greeted.nonces.server = welcome.nonce;
  return greeted;
}

}  // namespace

Result<Opened> open_session(const Peer& peer, const OpenRequest& request, Holder* holder, Deadline latest) {
  Greeted greeted = TRY(greet(peer, latest));
  wire::OpenCall call = wire::to_call(request);
  call.proof = wire::prove(peer.secret, wire::kOpenPurpose, greeted.nonces, call);
  const Answer answer = TRY(exchange(greeted.fd.get(), wire::Kind::kOpen, 0, bytes_of(call), greeted.deadline));
  if (answer.status != 0) {
    return explain_refusal(peer.secret, greeted.nonces, wire::Kind::kOpen, answer.status, answer.body, holder);
  }
  const auto body = TRY(wire::decode<wire::OpenAnswer>(answer.body));
  if (!same_bytes(wire::prove(peer.secret, wire::kOpenedPurpose, greeted.nonces, body), body.proof)) {
    return Error(EACCES, "the brick does not know the secret");
  }
  return Opened{std::move(greeted.fd), TRY(wire::from_answer(body)), body.token};
}

Result<UniqueFd> attach(const Peer& peer, const wire::Token& token, wire::Role role, Deadline latest) {
  Greeted greeted = TRY(greet(peer, latest));
  wire::AttachCall call;
  call.token = token;
  call.role = static_cast<uint32_t>(role);
  call.proof = wire::prove(peer.secret, wire::kAttachPurpose, greeted.nonces, call);
  const Answer answer = TRY(exchange(greeted.fd.get(), wire::Kind::kAttach, 0, bytes_of(call), greeted.deadline));
  if (answer.status != 0) {
    return explain_refusal(peer.secret, greeted.nonces, wire::Kind::kAttach, answer.status, answer.body, nullptr);
  }
  const auto body = TRY(wire::decode<wire::AttachAnswer>(answer.body));
  if (!same_bytes(wire::prove(peer.secret, wire::kAttachedPurpose, greeted.nonces, body), body.proof)) {
    return Error(EACCES, "the brick does not know the secret");
  }
  return std::move(greeted.fd);
}

}  // namespace brickfs::tcp
