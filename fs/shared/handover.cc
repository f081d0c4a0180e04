// SPDX-License-Identifier: Apache-2.0
#include "fs/shared/handover.h"

#include <fmt/core.h>

#include <cerrno>
#include <cstddef>
#include <utility>

#include "transport/brick/limits.h"
#include "transport/remote/call_channel.h"
#include "transport/tcp/greet.h"

namespace brickfs::shared {
namespace {

using std::chrono::steady_clock;

constexpr std::string_view kHandoverPurpose = "brickfs handover";
constexpr std::string_view kHandedPurpose = "brickfs handed over";

struct HandoverCall {
  uint64_t coordinator = 0;
  char volume[64] = {};
  char to[128] = {};
  Proof proof{};
};
static_assert(sizeof(HandoverCall) == 232 && offsetof(HandoverCall, proof) == 200);
static_assert(sizeof(HandoverCall) <= limits::kFirstBodyBytes);

struct HandoverReply {  // in front of the proof
  char text[256] = {};
};

std::vector<std::byte> proved_reply(uint16_t status, std::span<const std::byte> body) {
  return wire::encode(bytes_of(status), body);
}

std::string_view host_of(std::string_view name) { return name.substr(0, name.find(" (")); }

Result<HandoverAnswer> exchange_handover(Channel& channel, const Nonces& nonces, const Secret& secret,
                                         const HandoverRequest& request, Deadline deadline) {
  HandoverCall call;
  call.coordinator = static_cast<uint64_t>(request.coordinator);
  wire::put_text(call.volume, request.volume);
  wire::put_text(call.to, request.to);
  call.proof = wire::prove(secret, kHandoverPurpose, nonces, call);
  const Reply reply = TRY(exchange(channel, kHandover, 0, bytes_of(call), deadline));
  if (reply.status == EACCES) return Error(EACCES, "the coordinator has another secret");
  if (reply.body.size() != sizeof(HandoverReply) + sizeof(Proof))
    return Error(EKEYREJECTED, "what answers there proves nothing");
  const auto body = std::span(reply.body).first(sizeof(HandoverReply));
  const auto proof = load<Proof>(std::span(reply.body).last(sizeof(Proof)));
  const auto status = static_cast<uint16_t>(reply.status);
  if (!same_bytes(make_proof(secret, kHandedPurpose, nonces, proved_reply(status, body)), proof))
    return Error(EKEYREJECTED, "what answers there does not know the secret");
  const auto said = TRY(wire::decode<HandoverReply>(body));
  return HandoverAnswer{reply.status, 0, TRY(wire::get_text(said.text))};
}

}  // namespace

Result<HandoverAnswer> ask_handover(const HostPort& address, const ClientSecret& secret,
                                    const HandoverRequest& request) {
  return prove_with(secret, [&](const Secret& one) -> Result<HandoverAnswer> {
    auto greeted = TRY(tcp::greet(address, steady_clock::now() + limits::kConnectTimeout + limits::kHandshakeTimeout,
                                  secret.tls(), one));
    return exchange_handover(*greeted.channel, greeted.nonces, one, request, greeted.deadline);
  });
}

Result<Secret> check_handover(const Secret& secret, const Nonces& nonces, const Message& call) {
  const auto handover = TRY(wire::decode<HandoverCall>(call.body));
  if (!same_bytes(wire::prove(secret, kHandoverPurpose, nonces, handover), handover.proof))
    return Error(EACCES, "the secret is wrong or missing");
  return secret;
}

Result<HandoverRequest> handover_in(const Message& call) {
  const auto handover = TRY(wire::decode<HandoverCall>(call.body));
  return HandoverRequest{ClientId{handover.coordinator}, TRY(wire::get_text(handover.volume)),
                         TRY(wire::get_text(handover.to))};
}

Status answer_handover(Channel& channel, const Nonces& nonces, const Secret& secret, const Message& call,
                       const HandoverAnswer& answer) {
  wire::CallHeader header;
  header.kind = call.header.kind | wire::kReplyBit;
  header.status = static_cast<uint16_t>(answer.status);
  header.id = call.header.id;
  HandoverReply reply;
  wire::put_text(reply.text, answer.text);
  const Proof proof = make_proof(secret, kHandedPurpose, nonces, proved_reply(header.status, bytes_of(reply)));
  return channel.send(header, wire::encode(bytes_of(reply), bytes_of(proof)));
}

HandoverAnswer choose_successor(std::span<const HandoverCandidate> candidates, SessionId own, const std::string& to) {
  const HandoverCandidate* refused = nullptr;
  for (const HandoverCandidate& one : candidates) {
    const bool is_meant = to.empty() || one.name == to || host_of(one.name) == to;
    const bool is_own = one.session == own && own != 0;
    if (!is_meant || (is_own && to.empty())) continue;
    if (!is_own && !one.read_only && one.is_heard) return {0, one.session, one.name};
    if (refused == nullptr) refused = &one;
  }
  if (refused == nullptr && to.empty()) return {ENOENT, 0, "it has no other member"};
  if (refused == nullptr) return {ENOENT, 0, fmt::format("{} is no member of it", to)};
  if (refused->session == own && own != 0) return {EALREADY, 0, fmt::format("{} coordinates it", refused->name)};
  if (refused->read_only)
    return {EROFS, 0,
            fmt::format("{} has it read-only{}", refused->name, to.empty() ? ", as all other members have" : "")};
  return {EAGAIN, 0, fmt::format("{} is not heard of just now", refused->name)};
}

}  // namespace brickfs::shared
