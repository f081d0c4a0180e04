// SPDX-License-Identifier: Apache-2.0
#include "server/tcp_calls.h"

#include <span>
#include <vector>

#include "transport/limits.h"
#include "transport/tcp/frame.h"
#include "transport/wire.h"

namespace brickfs {
namespace {

using wire::Kind;
using Body = std::vector<std::byte>;

Result<BlockRange> decode_blocks(const wire::RangeRecord& record) {
  const BlockRange blocks = wire::from_record(record);
  if (!is_valid(blocks) || blocks.count > limits::kBlocksPerCall) return Error(EINVAL, "no valid range of blocks");
  return blocks;
}

Result<Body> call_map(ServerSession& session, std::span<const std::byte> body) {
  const auto call = TRY(wire::decode<wire::MapCall>(body));
  const BlockRange blocks = TRY(decode_blocks(call.blocks));
  const auto access = Access{call.access};
  if (access != Access::kRead && access != Access::kReadWrite) return Error(EINVAL, "unknown access");
  return wire::encode_handles(TRY(session.map(blocks, access)));
}

Result<Body> call_range(ServerSession& session, Kind kind, std::span<const std::byte> body) {
  const BlockRange blocks = TRY(decode_blocks(TRY(wire::decode<wire::RangeRecord>(body))));
  if (kind == Kind::kAlloc) TRY(session.alloc(blocks));
  if (kind == Kind::kFree) TRY(session.free(blocks));
  if (kind == Kind::kUnmap) TRY(session.unmap(blocks));
  return Body();
}

Result<Body> dispatch(ServerSession& session, Kind kind, std::span<const std::byte> body) {
  switch (kind) {
    case Kind::kAlloc:
    case Kind::kFree:
    case Kind::kUnmap:
      return call_range(session, kind, body);
    case Kind::kMap:
      return call_map(session, body);
    case Kind::kList: {
      const auto call = TRY(wire::decode<wire::ListCall>(body));
      return wire::encode_list(TRY(session.list(BlockAddress{call.cursor})));
    }
    case Kind::kCommit:
      TRY(session.commit(TRY(wire::decode_commit(body))));
      return Body();
    case Kind::kStat:
      return wire::encode(bytes_of(wire::to_answer(TRY(session.stat()))));
    case Kind::kRenew:
      session.touch();
      return Body();
    case Kind::kClose:
      TRY(session.close());
      return Body();
    case Kind::kOpen:
    case Kind::kAttach:
      break;
  }
  return Error(EPROTO, "no such call");
}

// False: the connection has ended, or must.
bool serve_one(int fd, TcpSession& session) {
  const auto frame = tcp::receive_frame(fd, tcp::Clock::now() + limits::kProgressTimeout);
  if (!frame.ok()) return false;
  const auto kind = Kind{frame->header.kind};
  session.begin_call();
  session.server_session().touch();
  const auto body = dispatch(session.server_session(), kind, frame->body);
  session.server_session().touch();
  session.end_call();
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
