// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/handshake.h"

#include <algorithm>

#include "transport/brick/limits.h"
#include "transport/brick/refusal.h"

namespace brickfs::verbs {
namespace {

struct Greeted {
  std::unique_ptr<MessageChannel> channel;
  Nonces nonces;
  Deadline deadline;  // of the whole handshake
};

Deadline earlier(Deadline latest, std::chrono::milliseconds patience) {
  return std::min<Deadline>(latest, Clock::now() + patience);
}

Result<Greeted> greet(const HostPort& address, Deadline latest) {
  const Deadline connected_by = earlier(latest, limits::kConnectTimeout);
  CmId id = TRY(find_path(address, connected_by));
  const DeviceFacts facts = TRY(look_at(id.id->verbs));
  Greeted greeted;
  greeted.channel = TRY(MessageChannel::make(std::move(id), wire::kBodyBytes, false));
  ConnectRequest request;
  request.purpose = static_cast<uint16_t>(Purpose::kCalls);
  request.nonce = random_nonce();
  const ConnectReply reply = TRY(connect(greeted.channel->id(), request, facts, connected_by));
  greeted.nonces = {request.nonce, reply.nonce};
  greeted.deadline = earlier(latest, limits::kHandshakeTimeout);
  return greeted;
}

}  // namespace

Result<Opened> open_session(const HostPort& address, const Secret& secret, const OpenRequest& request, Holder* holder,
                            Deadline latest) {
  Greeted greeted = TRY(greet(address, latest));
  wire::OpenCall call = wire::to_call(request);
  call.proof = wire::prove(secret, wire::kOpenPurpose, greeted.nonces, call);
  const Answer answer = TRY(exchange(*greeted.channel, wire::Kind::kOpen, 0, bytes_of(call), greeted.deadline));
  if (answer.status != 0) {
    return explain_refusal(secret, greeted.nonces, wire::Kind::kOpen, answer.status, answer.body, holder);
  }
  const auto body = TRY(wire::decode<wire::OpenAnswer>(answer.body));
  if (!same_bytes(wire::prove(secret, wire::kOpenedPurpose, greeted.nonces, body), body.proof)) {
    return Error(EACCES, "the brick does not know the secret");
  }
  Opened opened;
  opened.session = TRY(wire::from_answer(body));
  opened.token = body.token;
  opened.device = greeted.channel->id().id->verbs;
  opened.channel = std::move(greeted.channel);
  return opened;
}

Result<std::unique_ptr<MessageChannel>> attach(const HostPort& address, const Secret& secret, const wire::Token& token,
                                               wire::Role role, Deadline latest) {
  Greeted greeted = TRY(greet(address, latest));
  wire::AttachCall call;
  call.token = token;
  call.role = static_cast<uint32_t>(role);
  call.proof = wire::prove(secret, wire::kAttachPurpose, greeted.nonces, call);
  const Answer answer = TRY(exchange(*greeted.channel, wire::Kind::kAttach, 0, bytes_of(call), greeted.deadline));
  if (answer.status != 0) {
    return explain_refusal(secret, greeted.nonces, wire::Kind::kAttach, answer.status, answer.body, nullptr);
  }
  const auto body = TRY(wire::decode<wire::AttachAnswer>(answer.body));
  if (!same_bytes(make_proof(secret, wire::kAttachedPurpose, greeted.nonces, {}), body.proof)) {
    return Error(EACCES, "the brick does not know the secret");
  }
  return std::move(greeted.channel);
}

Result<Lane::Opened> open_lane(const HostPort& address, const LaneAnswer& offer, LocalMemory& memory,
                               ibv_comp_channel* completions, Deadline latest) {
  const Deadline deadline = earlier(latest, limits::kConnectTimeout);
  CmId id = TRY(find_path(address, deadline));
  if (id.id->verbs != completions->context) return Error(ENODEV, "the address is reached through another device now");
  ClientDevice* const device = TRY(memory.find_device(id.id->verbs));
  Lane::Opened opened = TRY(Lane::make_pair(std::move(id), *device, completions));
  opened.number = offer.lane;
  ConnectRequest request;
  request.purpose = static_cast<uint16_t>(Purpose::kLane);
  std::copy(offer.ticket.begin(), offer.ticket.end(), request.nonce.begin());
  opened.reply = TRY(connect(opened.id, request, device->facts(), deadline));
  return opened;
}

}  // namespace brickfs::verbs
