// SPDX-License-Identifier: Apache-2.0
// The client's first words on a TCP connection. docs/protocol.md, "Greeting".
#pragma once

#include "transport/base/result.h"
#include "transport/brick/proof.h"
#include "transport/brick/source.h"
#include "transport/brick/tls_mode.h"
#include "transport/remote/handshake.h"
#include "transport/tcp/tcp_channel.h"

namespace brickfs::tcp {

// Takes as long as limits::kConnectTimeout and kHandshakeTimeout allow, and never beyond `latest`. EPROTO: no brick.
// By `tls` encrypted by the secret: EINVAL: there is none; ENOPROTOOPT: one end requires it, and the other does not do
// it; EACCES: the peer does not know the secret.
Result<Greeted<TcpChannel>> greet(const HostPort& peer, Deadline latest, TlsMode tls = TlsMode::kOff,
                                  const Secret& secret = {});

// Of a peer that has proved itself: a mount that asks for TLS and gets none says so.
void warn_if_in_the_clear(const HostPort& peer, TlsMode tls, const Stream& stream);

}  // namespace brickfs::tcp
