// SPDX-License-Identifier: Apache-2.0
#include "transport/tcp/greet.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "transport/base/log.h"
#include "transport/brick/limits.h"

namespace brickfs::tcp {
namespace {

// Of a welcome. Nobody has proved anything yet, so no word of it ends a mount.
Status check_welcome(const wire::Welcome& welcome) {
  if (welcome.magic != wire::kMagic) return Error(EPROTO, "what answers there is not a brick");
  if (welcome.version == wire::kVersion && welcome.status == ENOKEY)
    return Error(ENOPROTOOPT, "what is not encrypted is refused there: tls=on, with the secret");
  if (welcome.status != 0 || welcome.version != wire::kVersion)
    return Error(EPROTO, "the brick speaks another protocol version");
  return {};
}

}  // namespace

Result<Greeted<TcpChannel>> greet(const HostPort& peer, Deadline latest, TlsMode tls, const Secret& secret) {
  if (tls != TlsMode::kOff && secret.bytes.empty()) return Error(EINVAL, "TLS without a secret");
  Stream stream(
      TRY(connect_to(peer.host, peer.port, std::min<Deadline>(latest, Clock::now() + limits::kConnectTimeout))));
  const Deadline deadline = std::min<Deadline>(latest, Clock::now() + limits::kHandshakeTimeout);
  wire::Hello hello;
  hello.nonce = random_nonce();
  if (tls != TlsMode::kOff) hello.features |= wire::kTls;
  iovec part = to_iovec(bytes_of(hello));
  TRY(stream.send_all(std::span(&part, 1)));
  wire::Welcome welcome;
  TRY(stream.receive_before(std::as_writable_bytes(std::span(&welcome, 1)), deadline));
  TRY(check_welcome(welcome));
  const bool encrypts = (hello.features & welcome.features & wire::kTls) != 0;
  if (tls == TlsMode::kRequire && !encrypts)
    return Error(ENOPROTOOPT, "nothing is encrypted there, as tls=require asks for: brickd --tls on");
  if (encrypts) TRY(stream.encrypt(secret, deadline));
  return Greeted<TcpChannel>{std::make_unique<TcpChannel>(std::move(stream)),
                             {hello.nonce, welcome.nonce, hello.features, welcome.features},
                             deadline};
}

void warn_if_in_the_clear(const HostPort& peer, TlsMode tls, const Stream& stream) {
  if (tls == TlsMode::kOff || stream.is_encrypted()) return;
  log::warn("{} does not do TLS: what is said there is not encrypted", format_address(peer));
}

}  // namespace brickfs::tcp
