// SPDX-License-Identifier: Apache-2.0
// The client's first words on a connection. docs/protocol.md, "Greeting", "Proof".
#pragma once

#include <cstdint>
#include <string>

#include "transport/base/result.h"
#include "transport/base/unique_fd.h"
#include "transport/brick/brick.h"
#include "transport/brick/proof.h"
#include "transport/brick/wire.h"
#include "transport/tcp/socket.h"

namespace brickfs::tcp {

struct Peer {
  std::string host;
  uint16_t port = 0;
  Secret secret;
};

struct Opened {
  UniqueFd fd;  // carries the session's calls; the session ends with it
  Session session;
  wire::Token token{};
};

// A session's first connection. Errors as Brick::open(); EACCES also when what answers cannot prove that it knows the
// secret, EKEYREJECTED when what refuses cannot. Takes as long as limits::kConnectTimeout and kHandshakeTimeout allow,
// and never beyond `latest`.
Result<Opened> open_session(const Peer& peer, const OpenRequest& request, Holder* holder, Deadline latest);
// A further connection of the session. EACCES: not its token, or the session has ended.
Result<UniqueFd> attach(const Peer& peer, const wire::Token& token, wire::Role role, Deadline latest);

}  // namespace brickfs::tcp
