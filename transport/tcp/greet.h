// SPDX-License-Identifier: Apache-2.0
// The client's first words on a TCP connection. docs/protocol.md, "Greeting".
#pragma once

#include "transport/base/result.h"
#include "transport/brick/source.h"
#include "transport/remote/handshake.h"
#include "transport/tcp/tcp_channel.h"

namespace brickfs::tcp {

// Takes as long as limits::kConnectTimeout and kHandshakeTimeout allow, and never beyond `latest`. EPROTO: no brick.
Result<Greeted<TcpChannel>> greet(const HostPort& peer, Deadline latest);

}  // namespace brickfs::tcp
