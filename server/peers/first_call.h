// SPDX-License-Identifier: Apache-2.0
// What listeners of all transports ask of a stranger's first call, OPEN, ATTACH or ADMINISTER, before they know
// anything else of him.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "server/peers/admitted_connections.h"
#include "server/peers/peer_address.h"
#include "server/peers/peer_session.h"
#include "server/peers/secret_guesses.h"
#include "transport/base/result.h"
#include "transport/brick/proof.h"
#include "transport/brick/wire.h"

namespace brickfs {

// `secret`: the one that this kind of call is proved by. EACCES: the proof is wrong; EPERM: an ADMINISTER, and there is
// no administrator's secret; EPROTO: none of the three.
Status check_first_call(const Secret& secret, const Nonces& nonces, uint16_t kind, std::span<const std::byte> body);

// How long its answer waits. Who brings the token of a session has proved enough not to be taken for one who guesses.
std::chrono::milliseconds delay_of_answer(SecretGuesses& guesses, const PeerHost& host, uint16_t kind,
                                          std::span<const std::byte> body,
                                          const std::function<bool(const wire::Token&)>& is_session);

// A wrong proof came.
void note_guess(SecretGuesses& guesses, const PeerAddress& peer);

// For whom a connection that begins with that call is.
AdmittedConnections::Owner owner_of(uint16_t kind, std::span<const std::byte> body, PeerSessions& sessions);

}  // namespace brickfs
