// SPDX-License-Identifier: Apache-2.0
#include "transport/tcp/greet.h"

#include <algorithm>

#include "transport/brick/limits.h"

namespace brickfs::tcp {

Result<Greeted<TcpChannel>> greet(const HostPort& peer, Deadline latest) {
  UniqueFd fd =
      TRY(connect_to(peer.host, peer.port, std::min<Deadline>(latest, Clock::now() + limits::kConnectTimeout)));
  const Deadline deadline = std::min<Deadline>(latest, Clock::now() + limits::kHandshakeTimeout);
  wire::Hello hello;
  hello.nonce = random_nonce();
  iovec part = to_iovec(bytes_of(hello));
  TRY(send_all(fd.get(), std::span(&part, 1)));
  wire::Welcome welcome;
  TRY(receive_before(fd.get(), std::as_writable_bytes(std::span(&welcome, 1)), deadline));
  if (welcome.magic != wire::kMagic) return Error(EPROTO, "what answers there is not a brick");
  // Nobody has proved anything yet, so no word of it ends a mount.
  if (welcome.status != 0 || welcome.version != wire::kVersion)
    return Error(EPROTO, "the brick speaks another protocol version");
  return Greeted<TcpChannel>{std::make_unique<TcpChannel>(std::move(fd)),
                             {hello.nonce, welcome.nonce, hello.features, welcome.features},
                             deadline};
}

}  // namespace brickfs::tcp
