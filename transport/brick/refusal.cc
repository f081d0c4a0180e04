// SPDX-License-Identifier: Apache-2.0
#include "transport/brick/refusal.h"

namespace brickfs {
namespace {

constexpr std::string_view kRefusedPurpose = "brickfs refused";

struct RefusalHead {  // what the proof covers in front of the body
  uint16_t kind = 0;
  uint16_t status = 0;
};
static_assert(sizeof(RefusalHead) == 4);

Proof prove_refusal(const Secret& secret, const Nonces& nonces, wire::Kind kind, int status,
                    std::span<const std::byte> body) {
  const RefusalHead head{static_cast<uint16_t>(kind), static_cast<uint16_t>(status)};
  return make_proof(secret, kRefusedPurpose, nonces, wire::encode(bytes_of(head), body));
}

// Proved, or EACCES.
Error explain_open(int status) {
  switch (status) {
    case EBUSY:
      return Error(status, "the volume is held by another");
    case EACCES:
      return Error(status, "the secret differs");
    case EROFS:
      return Error(status, "the key opens the volume for reading only");
    case ENOENT:
      return Error(status, "no such volume");
    case ESTALE:
      return Error(status, "another holds the volume since");
    case EIDRM:
      return Error(status, "the volume was removed");
    case ENOBUFS:
      return Error(status, "the session has too many connections");
    case EUSERS:
      return Error(status, "the brick has too many sessions");
    default:
      return Error(status, "the brick refused the session");
  }
}

}  // namespace

std::vector<std::byte> encode_refusal_with(const Secret& secret, const Nonces& nonces, wire::Kind kind, int status,
                                           std::span<const std::byte> body) {
  return wire::encode(body, prove_refusal(secret, nonces, kind, status, body));
}

std::vector<std::byte> encode_refusal(const Secret& secret, const Nonces& nonces, wire::Kind kind, int status,
                                      const Holder& holder) {
  const wire::HolderRecord record = wire::to_record(holder);
  return encode_refusal_with(secret, nonces, kind, status,
                             status == EBUSY ? bytes_of(record) : std::span<const std::byte>());
}

Result<std::span<const std::byte>> proved_refusal(const Secret& secret, const Nonces& nonces, wire::Kind kind,
                                                  int status, std::span<const std::byte> body) {
  const size_t proved_bytes = body.size() < sizeof(Proof) ? 0 : body.size() - sizeof(Proof);
  const auto proved = body.first(proved_bytes);
  if (same_bytes(prove_refusal(secret, nonces, kind, status, proved), body.subspan(proved_bytes))) return proved;
  return Error(EACCES, "a refusal that is not proved");
}

Error explain_refusal(const Secret& secret, const Nonces& nonces, wire::Kind kind, int status,
                      std::span<const std::byte> body, Holder* holder) {
  const auto proved = proved_refusal(secret, nonces, kind, status, body);
  if (!proved.ok()) {
    if (status == EACCES && secret.bytes.empty()) return Error(EACCES, "it asks for a secret, and none is given");
    if (status == EACCES) return explain_open(EACCES);
    return Error(EKEYREJECTED, "what answers there does not know the secret");
  }
  if (status == EBUSY) {
    const Holder told = TRY(wire::from_record(TRY(wire::decode_grown<wire::HolderRecord>(*proved))));
    if (holder != nullptr) *holder = told;
  }
  return explain_open(status);
}

}  // namespace brickfs
