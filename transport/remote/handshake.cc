// SPDX-License-Identifier: Apache-2.0
#include "transport/remote/handshake.h"

#include "transport/brick/refusal.h"
#include "transport/remote/call_channel.h"

namespace brickfs {
namespace {

// `call`, proved; and what the answer says in front of its proof.
template <typename Call>
Result<std::vector<std::byte>> introduce(Channel& channel, const Nonces& nonces, const Secret& secret, wire::Kind kind,
                                         Call call, std::string_view purpose, std::string_view answer_purpose,
                                         Holder* holder, Deadline deadline) {
  call.proof = wire::prove(secret, purpose, nonces, call);
  Reply reply = TRY(exchange(channel, kind, 0, bytes_of(call), deadline));
  if (reply.status != 0) return explain_refusal(secret, nonces, kind, reply.status, reply.body, holder);
  if (reply.body.size() < sizeof(Proof)) return Error(EPROTO, "an answer without a proof");
  const auto proof = load<Proof>(std::span(reply.body).last(sizeof(Proof)));
  reply.body.resize(reply.body.size() - sizeof(Proof));
  if (same_bytes(make_proof(secret, answer_purpose, nonces, reply.body), proof)) return std::move(reply.body);
  return Error(EACCES, "the brick does not know the secret");
}

}  // namespace

Result<Opened> open_session(Channel& channel, const Nonces& nonces, const Secret& secret, const OpenRequest& request,
                            Holder* holder, Deadline deadline) {
  const auto body = TRY(introduce(channel, nonces, secret, wire::Kind::kOpen, wire::to_call(request),
                                  wire::kOpenPurpose, wire::kOpenedPurpose, holder, deadline));
  const auto answer = TRY(wire::decode_grown<wire::OpenAnswer>(body));
  return Opened{TRY(wire::from_answer(answer)), answer.token};
}

Status attach(Channel& channel, const Nonces& nonces, const Secret& secret, const wire::Token& token, wire::Role role,
              Deadline deadline) {
  wire::AttachCall call;
  call.token = token;
  call.role = static_cast<uint32_t>(role);
  TRY(introduce(channel, nonces, secret, wire::Kind::kAttach, call, wire::kAttachPurpose, wire::kAttachedPurpose,
                nullptr, deadline));
  return {};
}

}  // namespace brickfs
