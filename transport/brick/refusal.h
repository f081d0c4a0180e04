// SPDX-License-Identifier: Apache-2.0
// The refusal of an OPEN or ATTACH. Who proved that he knows the secret gets it proved, too: whoever has only taken the
// brick's address cannot end a mount with it. docs/protocol.md, "Refusals".
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "transport/base/result.h"
#include "transport/brick/brick.h"
#include "transport/brick/proof.h"
#include "transport/brick/wire.h"

namespace brickfs {

// What the state of a link says (LinkState::text) of who is refused when he comes back; behind it stands why.
constexpr std::string_view kRefusesClient = "the brick refuses this client: ";

// The body of an answer with this status; `holder` stands in it with EBUSY only.
std::vector<std::byte> encode_refusal(const Secret& secret, const Nonces& nonces, wire::Kind kind, int status,
                                      const Holder& holder = {});

// The same of an ADMINISTER, whose refusals say what they like.
std::vector<std::byte> encode_refusal_with(const Secret& secret, const Nonces& nonces, wire::Kind kind, int status,
                                           std::span<const std::byte> body);

// What stands in front of a refusal's proof. EACCES: that is not right.
Result<std::span<const std::byte>> proved_refusal(const Secret& secret, const Nonces& nonces, wire::Kind kind,
                                                  int status, std::span<const std::byte> body);

// What an answer with this status says to the client; `holder` (may be null) is filled in with EBUSY. Not proved, it is
// EACCES, if that is what it says (a wrong secret cannot be answered otherwise), else EKEYREJECTED; EPROTO: malformed.
Error explain_refusal(const Secret& secret, const Nonces& nonces, wire::Kind kind, int status,
                      std::span<const std::byte> body, Holder* holder);

}  // namespace brickfs
