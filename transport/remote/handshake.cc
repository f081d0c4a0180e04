// SPDX-License-Identifier: Apache-2.0
#include "transport/remote/handshake.h"

#include "transport/brick/refusal.h"
#include "transport/remote/call_channel.h"

namespace brickfs {
namespace {

// The body of an answer in front of its proof. EACCES: that is not right.
Result<std::vector<std::byte>> proved_body(const Secret& secret, std::string_view purpose, const Nonces& nonces,
                                           std::vector<std::byte> body) {
  if (body.size() < sizeof(Proof)) return Error(EPROTO, "an answer without a proof");
  const auto proof = load<Proof>(std::span(body).last(sizeof(Proof)));
  body.resize(body.size() - sizeof(Proof));
  if (same_bytes(make_proof(secret, purpose, nonces, body), proof)) return body;
  return Error(EACCES, "the brick does not know the secret");
}

// `call`, proved; and what the answer says in front of its proof.
template <typename Call>
Result<std::vector<std::byte>> introduce(Channel& channel, const Nonces& nonces, const Secret& secret, wire::Kind kind,
                                         Call call, std::string_view purpose, std::string_view answer_purpose,
                                         Holder* holder, Deadline deadline) {
  call.proof = wire::prove(secret, purpose, nonces, call);
  Reply reply = TRY(exchange(channel, kind, 0, bytes_of(call), deadline));
  if (reply.status != 0) return explain_refusal(secret, nonces, kind, reply.status, reply.body, holder);
  return proved_body(secret, answer_purpose, nonces, std::move(reply.body));
}

// Small packets passed. A path that takes less than its ends believe loses the large ones without a word, and so would
// lose every transfer.
Status pass_large_packets(Channel& channel, const Nonces& nonces, Deadline deadline) {
  if ((nonces.features() & wire::kEchoes) == 0) return {};
  const std::vector<std::byte> bytes(wire::kEchoBytes);
  const auto echo = exchange(channel, wire::Kind::kEcho, 0, bytes, deadline);
  if (echo.code() == ETIMEDOUT) return Error(EMSGSIZE, "small packets pass, large ones do not: look at the MTU");
  if (!echo.ok()) return Error(echo.code(), "the path was lost with the first large packets: look at its MTU");
  if (echo->status != 0 || echo->body.size() != bytes.size()) return Error(EPROTO, "no echo");
  return {};
}

Result<Reply> send_administration(Channel& channel, const Nonces& nonces, const Secret& secret,
                                  const AdminRequest& request, Deadline deadline) {
  const auto send = [&](auto call) {
    call.proof = wire::prove(secret, wire::kAdministerPurpose, nonces, call);
    return exchange(channel, wire::Kind::kAdminister, 0, bytes_of(call), deadline);
  };
  if (!is_about_keys(request.action)) return send(to_call(request));
  if ((nonces.features() & wire::kVolumeKeys) == 0) return Error(EOPNOTSUPP, "the brick is older than keys of volumes");
  return send(to_key_call(request, secret, nonces));
}

// What an answer with a status says. A brick proves nothing to who has proved nothing to it.
Result<AdminAnswer> refused_answer(const Secret& secret, const Nonces& nonces, const Reply& reply) {
  const auto proved = proved_refusal(secret, nonces, wire::Kind::kAdminister, reply.status, reply.body);
  if (proved.ok()) return decode_admin_answer(AdminAction::kList, reply.status, *proved);
  if (reply.status == EPERM) return Error(EPERM, "the brick has no administrator's secret");
  if (reply.status == EACCES) return Error(EACCES, "the administrator's secret is wrong");
  return Error(EKEYREJECTED, "what answers there does not know the secret");
}

}  // namespace

Result<Opened> open_session(Channel& channel, const Nonces& nonces, const Secret& secret, const OpenRequest& request,
                            Holder* holder, Deadline deadline) {
  const bool notifications = (nonces.features() & wire::kNotifications) != 0;
  if (request.mode == OpenMode::kFollow && !notifications) {
    return Error(EOPNOTSUPP, "the brick is older than sessions that follow");
  }
  if (request.bound && (nonces.features() & wire::kBoundSessions) == 0) {
    return Error(EOPNOTSUPP, "the brick is older than sessions that follow one holder");
  }
  const bool writing_followers = (nonces.features() & wire::kWritingFollowers) != 0;
  if (request.writes && !writing_followers) return Error(EOPNOTSUPP, "the brick is older than followers that write");
  const auto body = TRY(introduce(channel, nonces, secret, wire::Kind::kOpen, wire::to_call(request),
                                  wire::kOpenPurpose, wire::kOpenedPurpose, holder, deadline));
  const auto answer = TRY(wire::decode_grown<wire::OpenAnswer>(body));
  Opened opened{TRY(wire::from_answer(answer)), answer.token, secret};
  opened.session.notifications = notifications;
  opened.session.writing_followers = writing_followers;
  TRY(pass_large_packets(channel, nonces, deadline));
  return opened;
}

Status attach(Channel& channel, const Nonces& nonces, const Secret& secret, const wire::Token& token, wire::Role role,
              Deadline deadline) {
  wire::AttachCall call;
  call.token = token;
  call.role = static_cast<uint32_t>(role);
  TRY(introduce(channel, nonces, secret, wire::Kind::kAttach, call, wire::kAttachPurpose, wire::kAttachedPurpose,
                nullptr, deadline));
  return role == wire::Role::kKeeper ? pass_large_packets(channel, nonces, deadline) : Status();
}

Result<AdminAnswer> administer(Channel& channel, const Nonces& nonces, const Secret& secret,
                               const AdminRequest& request, Deadline deadline) {
  TRY(check(request));
  if ((nonces.features() & wire::kAdministration) == 0) {
    return Error(EOPNOTSUPP, "the brick is older than the calls of administrators");
  }
  Reply reply = TRY(send_administration(channel, nonces, secret, request, deadline));
  if (reply.status != 0) return refused_answer(secret, nonces, reply);
  const auto body = TRY(proved_body(secret, wire::kAdministeredPurpose, nonces, std::move(reply.body)));
  return decode_admin_answer(request.action, 0, body);
}

}  // namespace brickfs
