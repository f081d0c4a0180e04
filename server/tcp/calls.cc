// SPDX-License-Identifier: Apache-2.0
#include "server/tcp/calls.h"

#include <span>
#include <vector>

#include "server/service/serve_call.h"
#include "transport/brick/limits.h"
#include "transport/brick/wire.h"
#include "transport/tcp/frame.h"

namespace brickfs {
namespace {

using wire::Kind;

// False: the connection has ended, or must.
bool serve_one(int fd, TcpSession& session) {
  const auto frame = tcp::receive_frame(fd, tcp::Clock::now() + limits::kProgressTimeout);
  if (!frame.ok()) return false;
  const auto kind = Kind{frame->header.kind};
  session.server_session().touch();
  const auto body = serve_call(session.server_session(), kind, frame->body, [fd] { return tcp::peer_has_gone(fd); });
  session.server_session().touch();
  if (body.code() == ESTALE) return false;  // a session that ends is cut off, and says nothing any more
  wire::CallHeader header;
  header.kind = frame->header.kind | wire::kReplyBit;
  header.id = frame->header.id;
  header.status = static_cast<uint16_t>(body.code());
  header.length_bytes = body.ok() ? static_cast<uint32_t>(body->size()) : 0;
  const Status sent =
      tcp::send_frame(fd, header, body.ok() ? std::span<const std::byte>(*body) : std::span<const std::byte>());
  return sent.ok() && body.code() != EPROTO && kind != Kind::kClose;
}

}  // namespace

void serve_calls(int fd, TcpSession& session, std::optional<std::chrono::milliseconds> silence) {
  constexpr std::chrono::hours kForEver{24 * 365};
  while (true) {
    const auto deadline = tcp::Clock::now() + (silence ? std::chrono::milliseconds(*silence) : kForEver);
    if (!tcp::wait_readable(fd, deadline).ok() || !serve_one(fd, session)) return;
  }
}

}  // namespace brickfs
