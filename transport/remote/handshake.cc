// SPDX-License-Identifier: Apache-2.0
#include "transport/remote/handshake.h"

#include "transport/brick/refusal.h"
#include "transport/remote/call_channel.h"

namespace brickfs {
namespace {

// `call`, proved; and the answer, if it is proved.
template <typename Answer, typename Call>
Result<Answer> introduce(Channel& channel, const Nonces& nonces, const Secret& secret, wire::Kind kind, Call call,
                         std::string_view purpose, std::string_view answer_purpose, Holder* holder, Deadline deadline) {
  call.proof = wire::prove(secret, purpose, nonces, call);
  const Reply reply = TRY(exchange(channel, kind, 0, bytes_of(call), deadline));
  if (reply.status != 0) return explain_refusal(secret, nonces, kind, reply.status, reply.body, holder);
  const auto answer = TRY(wire::decode<Answer>(reply.body));
  if (same_bytes(wire::prove(secret, answer_purpose, nonces, answer), answer.proof)) return answer;
  return Error(EACCES, "the brick does not know the secret");
}

}  // namespace

Result<Opened> open_session(Channel& channel, const Nonces& nonces, const Secret& secret, const OpenRequest& request,
                            Holder* holder, Deadline deadline) {
  const auto answer =
      TRY(introduce<wire::OpenAnswer>(channel, nonces, secret, wire::Kind::kOpen, wire::to_call(request),
                                      wire::kOpenPurpose, wire::kOpenedPurpose, holder, deadline));
  return Opened{TRY(wire::from_answer(answer)), answer.token};
}

Status attach(Channel& channel, const Nonces& nonces, const Secret& secret, const wire::Token& token, wire::Role role,
              Deadline deadline) {
  wire::AttachCall call;
  call.token = token;
  call.role = static_cast<uint32_t>(role);
  TRY(introduce<wire::AttachAnswer>(channel, nonces, secret, wire::Kind::kAttach, call, wire::kAttachPurpose,
                                    wire::kAttachedPurpose, nullptr, deadline));
  return {};
}

}  // namespace brickfs
