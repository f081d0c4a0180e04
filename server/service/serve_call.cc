// SPDX-License-Identifier: Apache-2.0
#include "server/service/serve_call.h"

#include "transport/brick/limits.h"

namespace brickfs {
namespace {

using wire::Kind;
using Body = std::vector<std::byte>;

Result<BlockRange> decode_blocks(const wire::RangeRecord& record) {
  const BlockRange blocks = wire::from_record(record);
  if (!is_valid(blocks) || blocks.count > limits::kBlocksPerCall) return Error(EINVAL, "no valid range of blocks");
  return blocks;
}

Result<Body> call_range(ServerSession& session, Kind kind, std::span<const std::byte> body) {
  const BlockRange blocks = TRY(decode_blocks(TRY(wire::decode<wire::RangeRecord>(body))));
  if (kind == Kind::kAlloc) TRY(session.alloc(blocks));
  if (kind == Kind::kFree) TRY(session.free(blocks));
  if (kind == Kind::kUnmap) TRY(session.unmap(blocks));
  return Body();
}

}  // namespace

Result<std::vector<Handle>> serve_map(ServerSession& session, std::span<const std::byte> body) {
  const auto call = TRY(wire::decode<wire::MapCall>(body));
  const BlockRange blocks = TRY(decode_blocks(call.blocks));
  const auto access = Access{call.access};
  if (access != Access::kRead && access != Access::kReadWrite) return Error(EINVAL, "unknown access");
  return session.map(blocks, access);
}

Result<Body> serve_call(ServerSession& session, Kind kind, std::span<const std::byte> body,
                        const std::function<bool()>& peer_gone) {
  switch (kind) {
    case Kind::kAlloc:
    case Kind::kFree:
    case Kind::kUnmap:
      return call_range(session, kind, body);
    case Kind::kMap:
      return wire::encode_handles(TRY(serve_map(session, body)));
    case Kind::kList: {
      const auto call = TRY(wire::decode<wire::ListCall>(body));
      return wire::encode_list(TRY(session.list(BlockAddress{call.cursor})));
    }
    case Kind::kCommit:
      TRY(session.commit(TRY(wire::decode_commit(body)), peer_gone));
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
    case Kind::kLane:
    case Kind::kDetach:
    case Kind::kKeys:
      break;
  }
  return Error(EPROTO, "no such call");
}

}  // namespace brickfs
