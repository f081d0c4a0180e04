// SPDX-License-Identifier: Apache-2.0
// What listeners of all transports ask of an unauthenticated peer's first call, OPEN, ATTACH or ADMINISTER, before they
// know anything else of him.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "server/peers/admitted_connections.h"
#include "server/peers/peer_session.h"
#include "transport/base/result.h"
#include "transport/brick/proof.h"
#include "transport/brick/volume_key.h"
#include "transport/brick/wire.h"

namespace brickfs {

// By which of those that may prove this call it is proved. EACCES: by none; EPERM: an ADMINISTER, and there is no
// administrator's secret; EPROTO: none of the three.
Result<Credential> check_first_call(const std::vector<Credential>& known, const Nonces& nonces, uint16_t kind,
                                    std::span<const std::byte> body);
// Secrets of the brick, or keys of a volume, as that.
std::vector<Credential> credentials_of(const std::vector<Secret>& secrets);
std::vector<Credential> credentials_of(const std::vector<VolumeKey>& keys);

// The volume that an OPEN is about.
std::optional<std::string> volume_in(uint16_t kind, std::span<const std::byte> body);

// The token that an ATTACH brings.
std::optional<wire::Token> token_in(uint16_t kind, std::span<const std::byte> body);

// For whom a connection that begins with that call is.
AdmittedConnections::Owner owner_of(uint16_t kind, std::span<const std::byte> body, PeerSessions& sessions);

}  // namespace brickfs
