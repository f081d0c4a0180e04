// SPDX-License-Identifier: Apache-2.0
#include "fs/shared/join.h"

#include <arpa/inet.h>
#include <fmt/core.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <memory>

#include "transport/base/unique_fd.h"
#include "transport/brick/limits.h"
#include "transport/remote/call_channel.h"

namespace brickfs::shared {
namespace {

constexpr std::string_view kJoinPurpose = "brickfs join";
constexpr std::string_view kJoinedPurpose = "brickfs joined";

struct JoinCall {
  uint64_t client = 0;
  uint64_t session = 0;
  wire::Token token{};
  uint32_t slot = 0;
  uint32_t flags = 0;  // kReadOnly
  uint64_t coordinator = 0;
  uint32_t version = 0;
  uint32_t reserved = 0;
  char volume[64] = {};
  char name[128] = {};
  Proof proof{};
};
static_assert(sizeof(JoinCall) == 280 && offsetof(JoinCall, proof) == 248);
static_assert(sizeof(JoinCall) <= limits::kFirstBodyBytes);
constexpr uint32_t kReadOnly = 1;

struct JoinAnswer {  // in front of the proof; nothing of it if the status is not 0
  uint64_t session = 0;
  uint64_t coordinator = 0;
  wire::Token token{};
  uint32_t durability = 0;
  uint32_t lease_ms = 0;
};
static_assert(sizeof(JoinAnswer) == 40);

// What the proof of an answer covers.
std::vector<std::byte> proved(uint16_t status, std::span<const std::byte> body) {
  return wire::encode(bytes_of(status), body);
}

Error refusal(int status) {
  switch (status) {
    case ESTALE:
      return Error(ESTALE, "the coordinator has ended, or has expelled this member");
    case ENOENT:
      return Error(ENOENT, "the coordinator has another volume");
    case EAGAIN:
      return Error(EAGAIN, "the coordinator is not ready yet");
    case ECONNREFUSED:
      return Error(ECONNREFUSED, "another coordinator is there now");
    case EPROTONOSUPPORT:
      return Error(EPROTONOSUPPORT, "the coordinator is of another version of brickfs");
    case EROFS:
      return Error(EROFS, "the coordinator has the volume read-only");
    case EUSERS:
      return Error(EUSERS, "the coordinator has as many members as it can have");
    default:
      return Error(status, "the coordinator refuses this member");
  }
}

}  // namespace

Result<std::string> address_towards(const HostPort& peer) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(peer.host.c_str(), std::to_string(peer.port).c_str(), &hints, &found) != 0)
    return Error(EHOSTUNREACH, "no such host");
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> addresses(found, &::freeaddrinfo);
  Error last(EHOSTUNREACH, "no address of this host towards it");
  for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
    const UniqueFd fd(::socket(each->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    sockaddr_storage own{};
    socklen_t length = sizeof(own);
    if (!fd || ::connect(fd.get(), each->ai_addr, each->ai_addrlen) != 0 ||
        ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&own), &length) != 0) {
      last = errno_error("an address of this host");
      continue;
    }
    char host[NI_MAXHOST] = {};
    if (::getnameinfo(reinterpret_cast<sockaddr*>(&own), length, host, sizeof(host), nullptr, 0, NI_NUMERICHOST) == 0)
      return std::string(host);
  }
  return last;
}

Result<Joined> join(Channel& channel, const Nonces& nonces, const Secret& secret, const JoinRequest& request,
                    Deadline deadline) {
  JoinCall call;
  call.client = static_cast<uint64_t>(request.client);
  call.session = request.session;
  call.token = request.token;
  call.slot = request.slot;
  call.flags = request.read_only ? kReadOnly : 0;
  call.coordinator = static_cast<uint64_t>(request.coordinator);
  call.version = request.version;
  wire::put_text(call.volume, request.volume);
  wire::put_text(call.name, request.name);
  call.proof = wire::prove(secret, kJoinPurpose, nonces, call);
  const Reply reply = TRY(exchange(channel, kJoin, 0, bytes_of(call), deadline));
  if (reply.status == EACCES) return Error(EACCES, "the coordinator has another secret");
  if (reply.body.size() < sizeof(Proof)) return Error(EKEYREJECTED, "what answers there proves nothing");
  const auto body = std::span(reply.body).first(reply.body.size() - sizeof(Proof));
  const auto proof = load<Proof>(std::span(reply.body).last(sizeof(Proof)));
  const auto status = static_cast<uint16_t>(reply.status);
  if (!same_bytes(make_proof(secret, kJoinedPurpose, nonces, proved(status, body)), proof))
    return Error(EKEYREJECTED, "what answers there does not know the secret");
  if (reply.status != 0) return refusal(reply.status);
  const auto answer = TRY(wire::decode<JoinAnswer>(body));
  return Joined{answer.session, answer.token, ClientId{answer.coordinator},
                TRY(wire::durability_from(answer.durability)), std::chrono::milliseconds(answer.lease_ms)};
}

Result<Secret> check_join(const Secret& secret, const Nonces& nonces, const Message& call) {
  if (call.header.kind != static_cast<uint16_t>(kJoin)) return Error(EPROTO, "no first call of a member");
  const auto join = TRY(wire::decode<JoinCall>(call.body));
  if (!same_bytes(wire::prove(secret, kJoinPurpose, nonces, join), join.proof))
    return Error(EACCES, "the secret is wrong or missing");
  return secret;
}

Result<JoinRequest> request_in(const Message& call) {
  const auto join = TRY(wire::decode<JoinCall>(call.body));
  if (join.slot >= kMostSlots || (join.flags & ~kReadOnly) != 0) return Error(EPROTO, "a member out of bounds");
  JoinRequest request;
  request.client = ClientId{join.client};
  request.session = join.session;
  request.token = join.token;
  request.slot = join.slot;
  request.read_only = join.flags == kReadOnly;
  request.coordinator = ClientId{join.coordinator};
  request.version = join.version;
  request.volume = TRY(wire::get_text(join.volume));
  request.name = TRY(wire::get_text(join.name));
  return request;
}

Status answer_join(Channel& channel, const Nonces& nonces, const Secret& secret, const Message& call,
                   const Result<Joined>& joined) {
  wire::CallHeader header;
  header.kind = call.header.kind | wire::kReplyBit;
  header.status = static_cast<uint16_t>(joined.code());
  header.id = call.header.id;
  if (joined.code() == EACCES) return channel.send(header, {});
  JoinAnswer answer;
  if (joined.ok()) {
    answer.session = joined->session;
    answer.coordinator = static_cast<uint64_t>(joined->coordinator);
    answer.token = joined->token;
    answer.durability = static_cast<uint32_t>(joined->durability);
    answer.lease_ms = static_cast<uint32_t>(joined->lease.count());
  }
  const auto body = joined.ok() ? bytes_of(answer) : std::span<const std::byte>();
  const Proof proof = make_proof(secret, kJoinedPurpose, nonces, proved(header.status, body));
  return channel.send(header, wire::encode(body, bytes_of(proof)));
}

}  // namespace brickfs::shared
