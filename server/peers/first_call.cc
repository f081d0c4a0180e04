// SPDX-License-Identifier: Apache-2.0
#include "server/peers/first_call.h"

namespace brickfs {
namespace {

bool is(uint16_t kind, wire::Kind wanted) { return kind == static_cast<uint16_t>(wanted); }

}  // namespace

Result<Credential> check_first_call(const std::vector<Credential>& known, const Nonces& nonces, uint16_t kind,
                                    std::span<const std::byte> body) {
  const auto proves = [&](std::string_view purpose, const auto& call) -> Result<Credential> {
    for (const Credential& one : known)
      if (same_bytes(wire::prove(one.secret, purpose, nonces, call), call.proof)) return one;
    return Error(EACCES, "the secret is wrong or missing");
  };
  if (is(kind, wire::Kind::kOpen)) return proves(wire::kOpenPurpose, TRY(wire::decode<wire::OpenCall>(body)));
  if (is(kind, wire::Kind::kAttach)) return proves(wire::kAttachPurpose, TRY(wire::decode<wire::AttachCall>(body)));
  if (is(kind, wire::Kind::kAdminister)) {
    if (known.empty()) return Error(EPERM, "there is no administrator's secret");
    if (body.size() == sizeof(wire::KeyCall))
      return proves(wire::kAdministerPurpose, TRY(wire::decode<wire::KeyCall>(body)));
    return proves(wire::kAdministerPurpose, TRY(wire::decode<wire::AdminCall>(body)));
  }
  return Error(EPROTO, "no first call");
}

std::vector<Credential> credentials_of(const std::vector<Secret>& secrets) {
  std::vector<Credential> all;
  for (const Secret& secret : secrets) all.push_back({.secret = secret, .key = {}, .rights = KeyRights::kReadWrite});
  return all;
}

std::vector<Credential> credentials_of(const std::vector<VolumeKey>& keys) {
  std::vector<Credential> all;
  for (const VolumeKey& key : keys) all.push_back({.secret = key.secret, .key = key.id, .rights = key.rights});
  return all;
}

std::optional<std::string> volume_in(uint16_t kind, std::span<const std::byte> body) {
  if (!is(kind, wire::Kind::kOpen)) return std::nullopt;
  const auto open = wire::decode<wire::OpenCall>(body);
  const auto request = open.ok() ? wire::from_call(*open) : open.error();
  return request.ok() ? std::optional(request->volume) : std::nullopt;
}

std::optional<wire::Token> token_in(uint16_t kind, std::span<const std::byte> body) {
  if (!is(kind, wire::Kind::kAttach)) return std::nullopt;
  const auto attach = wire::decode<wire::AttachCall>(body);
  return attach.ok() ? std::optional(attach->token) : std::nullopt;
}

AdmittedConnections::Owner owner_of(uint16_t kind, std::span<const std::byte> body, PeerSessions& sessions) {
  using Kind = AdmittedConnections::Kind;
  const auto kind_of = [](OpenMode mode) { return mode == OpenMode::kExclusive ? Kind::kHolder : Kind::kShared; };
  if (is(kind, wire::Kind::kOpen)) {
    const auto open = wire::decode<wire::OpenCall>(body);
    const auto request = open.ok() ? wire::from_call(*open) : open.error();
    if (request.ok()) return {kind_of(request->mode), request->volume, 0};
  }
  if (is(kind, wire::Kind::kAttach)) {
    const auto attach = wire::decode<wire::AttachCall>(body);
    const auto session = attach.ok() ? sessions.find(attach->token) : nullptr;
    if (session != nullptr)
      return {kind_of(session->server_session().mode()), session->volume(), session->connections()};
  }
  return {};
}

}  // namespace brickfs
