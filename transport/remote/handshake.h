// SPDX-License-Identifier: Apache-2.0
// The client's first call on a connection, OPEN or ATTACH. docs/protocol.md, "Proof", "Calls".
#pragma once

#include <memory>

#include "transport/base/result.h"
#include "transport/brick/administration.h"
#include "transport/brick/brick.h"
#include "transport/brick/channel.h"
#include "transport/brick/proof.h"
#include "transport/brick/wire.h"

namespace brickfs {

// Transports make these: connected, and greeted. Nobody has proved anything yet.
template <typename Kind>
struct Greeted {
  std::unique_ptr<Kind> channel;
  Nonces nonces;
  Deadline deadline;  // of the whole handshake
};

struct Opened {
  Session session;
  wire::Token token{};
  Secret secret{};  // by which it was: the same lets further connections join it
};

// Begins a session, which ends with this connection. Errors as Brick::open(); EACCES also when what answers cannot
// prove that it knows the secret, EKEYREJECTED when what refuses cannot. A connection by which the session is kept has
// carried full packets both ways, unless the brick is older than ECHO: EMSGSIZE.
Result<Opened> open_session(Channel& channel, const Nonces& nonces, const Secret& secret, const OpenRequest& request,
                            Holder* holder, Deadline deadline);
// A further connection of the session. EACCES: not its token, or the session has ended.
Status attach(Channel& channel, const Nonces& nonces, const Secret& secret, const wire::Token& token, wire::Role role,
              Deadline deadline);
// All that this connection is for; `secret` is the administrator's. EOPNOTSUPP: the brick is older than that. EPERM: it
// has no administrator's secret. EACCES: it has another.
Result<AdminAnswer> administer(Channel& channel, const Nonces& nonces, const Secret& secret,
                               const AdminRequest& request, Deadline deadline);

}  // namespace brickfs
