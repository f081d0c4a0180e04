// SPDX-License-Identifier: Apache-2.0
// The checks of calls, and their bytes.
#include "transport/brick/calls.h"

#include <cstring>

#include "transport/brick/wire.h"

namespace brickfs::calls {
namespace {

using wire::decode;
using wire::decode_array;
using Body = std::span<const std::byte>;
using Bytes = std::vector<std::byte>;

wire::RangeRecord record_of(const BlockRange& blocks) { return {raw(blocks.start), blocks.count}; }
BlockRange range_of(const wire::RangeRecord& record) { return {BlockAddress{record.start}, record.count}; }
bool is_known(Access access) { return access == Access::kRead || access == Access::kReadWrite; }

Status check_range(const BlockRange& blocks) {
  if (!is_valid(blocks) || blocks.count > limits::kBlocksPerCall) return Error(EINVAL, "no valid range of blocks");
  return {};
}

Status check_client(ClientId client) { return client != ClientId{} ? Status() : Error(EINVAL, "no client"); }

template <typename Record>
Bytes bytes_of_all(const std::vector<Record>& records) {
  return wire::encode(std::as_bytes(std::span(records)));
}

// --- requests

template <typename Ranged>
requires requires(const Ranged& call) { call.blocks; }
Bytes body_of(const Ranged& call) { return wire::encode(bytes_of(record_of(call.blocks))); }
template <typename Empty>
requires std::is_empty_v<Empty> Bytes body_of(const Empty&) { return {}; }
Bytes body_of(const Map& call) {
  return wire::encode(bytes_of(wire::MapCall{record_of(call.blocks), static_cast<uint32_t>(call.access), 0}));
}
Bytes body_of(const List& call) { return wire::encode(bytes_of(wire::ListCall{raw(call.cursor)})); }
Bytes body_of(const Commit& call) {
  std::vector<wire::CommitRecord> records;
  records.reserve(call.ranges.size());
  for (const CommitRange& range : call.ranges) {
    records.push_back({range.address, range.length_bytes, range.after_previous ? wire::kCommitAfterPrevious : 0, 0});
  }
  return bytes_of_all(records);
}
Bytes body_of(const Endpoint& call) {
  wire::EndpointCall body;
  wire::put_text(body.provider, call.provider);
  wire::put_text(body.host, call.host);
  body.port = call.port;
  return wire::encode(bytes_of(body));
}
Bytes body_of(const Detach& call) { return wire::encode(bytes_of(wire::DetachCall{call.pairs, 0})); }
Bytes body_of(const Notify& call) { return wire::encode(bytes_of(wire::NotifyCall{call.tag, call.value})); }
Bytes body_of(const Wait& call) {
  const wire::WaitCall head{static_cast<uint32_t>(call.patience.count()), 0};
  return wire::encode(bytes_of(head), std::as_bytes(std::span(call.seen)));
}
template <typename OfClient>
requires requires(const OfClient& call) { call.client; }
Bytes body_of(const OfClient& call) {
  return wire::encode(bytes_of(wire::ClientCall{static_cast<uint64_t>(call.client)}));
}
Bytes body_of(const Keys& call) { return wire::encode(bytes_of(wire::KeysCall{call.pair, call.after})); }

template <typename Ranged>
Result<Request> decode_ranged(Body body) {
  return Request(Ranged{range_of(TRY(decode<wire::RangeRecord>(body)))});
}
template <typename Empty>
Result<Request> decode_empty(Body body) {
  if (!body.empty()) return Error(EPROTO, "a body where none belongs");
  return Request(Empty{});
}
Result<Request> decode_map(Body body) {
  const auto call = TRY(decode<wire::MapCall>(body));
  return Request(Map{range_of(call.blocks), Access{call.access}});
}
Result<Request> decode_commit(Body body) {
  Commit commit;
  for (const wire::CommitRecord& record : TRY(decode_array<wire::CommitRecord>(body, limits::kRangesPerCommit))) {
    if ((record.flags & ~wire::kCommitAfterPrevious) != 0) return Error(EPROTO, "unknown flag of a commit range");
    commit.ranges.push_back({record.address, record.length_bytes, record.flags != 0});
  }
  return Request(std::move(commit));
}
Result<Request> decode_keys(Body body) {
  const auto call = TRY(decode<wire::KeysCall>(body));
  if (call.pair >= limits::kQueuePairsPerSession) return Error(EPROTO, "no such queue pair");
  return Request(Keys{call.pair, call.after});
}
Result<Request> decode_endpoint(Body body) {
  const auto call = TRY(decode<wire::EndpointCall>(body));
  return Request(Endpoint{TRY(wire::get_text(call.provider)), TRY(wire::get_text(call.host)), call.port});
}
Result<Request> decode_notify(Body body) {
  const auto call = TRY(decode<wire::NotifyCall>(body));
  return Request(Notify{call.tag, call.value});
}
Result<Request> decode_wait(Body body) {
  if (body.size() < sizeof(wire::WaitCall)) return Error(EPROTO, "frame has the wrong length");
  const auto head = load<wire::WaitCall>(body);
  return Request(Wait{std::chrono::milliseconds(head.patience_ms),
                      TRY(decode_array<Seen>(body.subspan(sizeof(head)), limits::kTagsPerWait))});
}
template <typename OfClient>
Result<Request> decode_of_client(Body body) {
  return Request(OfClient{ClientId{TRY(decode<wire::ClientCall>(body)).client}});
}

// --- answers

Bytes body_of(const Mapped& mapped) {
  std::vector<wire::HandleRecord> records;
  records.reserve(mapped.handles.size());
  for (const Handle& handle : mapped.handles) {
    records.push_back(
        {record_of(handle.blocks), handle.remote_address, handle.remote_key, static_cast<uint32_t>(handle.access)});
  }
  return wire::encode(std::as_bytes(std::span(records)), std::as_bytes(std::span(mapped.keys)));
}

Bytes body_of(const ListPage& page) {
  wire::ListAnswer head;
  head.more = page.cursor.has_value() ? 1 : 0;
  head.cursor = page.cursor ? raw(*page.cursor) : 0;
  std::vector<wire::RangeRecord> records;
  records.reserve(page.extents.size());
  for (const BlockRange& extent : page.extents) records.push_back(record_of(extent));
  return wire::encode(bytes_of(head), std::as_bytes(std::span(records)));
}

std::vector<std::byte> body_of(const BrickStat& stat) {
  wire::StatAnswer answer;
  answer.boot = static_cast<uint64_t>(stat.boot);
  answer.epoch = static_cast<uint64_t>(stat.epoch);
  answer.volume_capacity_blocks = stat.volume_capacity_blocks;
  answer.volume_used_blocks = stat.volume_used_blocks;
  answer.volume_mapped_blocks = stat.volume_mapped_blocks;
  answer.brick_capacity_blocks = stat.brick_capacity_blocks;
  answer.brick_used_blocks = stat.brick_used_blocks;
  answer.memory_blocks = stat.memory_blocks;
  answer.resident_blocks = stat.resident_blocks;
  answer.allocatable_blocks = stat.allocatable_blocks;
  answer.sessions = stat.sessions;
  answer.commits = stat.commits;
  answer.committed_bytes = stat.committed_bytes;
  answer.durability = static_cast<uint32_t>(stat.durability);
  answer.held = !stat.holder ? 0 : stat.holder_away ? 2 : 1;
  if (stat.holder) answer.holder = wire::to_record(*stat.holder);
  wire::put_text(answer.medium, stat.medium);
  return wire::encode(bytes_of(answer));
}

Bytes body_of(const QueuePairOffer& offer) {
  return wire::encode(bytes_of(wire::QueuePairAnswer{offer.pair, 0, offer.ticket}));
}
Bytes body_of(const EndpointOffer& offer) {
  wire::EndpointAnswer answer;
  answer.pair = offer.pair;
  answer.flags = offer.virtual_addresses ? wire::kVirtualAddresses : 0;
  answer.high_keys = offer.high_keys;
  answer.flush_key = offer.flush_key;
  answer.flush_address = offer.flush_address;
  answer.name_bytes = static_cast<uint32_t>(std::min(offer.name.size(), sizeof(answer.name)));
  wire::put_text(answer.provider, offer.provider);
  std::memcpy(answer.name, offer.name.data(), answer.name_bytes);
  return wire::encode(bytes_of(answer));
}
Bytes body_of(const KeyPage& page) { return bytes_of_all(page.keys); }
Bytes body_of(const Notices& told) { return bytes_of_all(told.notices); }

Result<Done> answer_to(const auto&, Body) { return Done{}; }

// Records until the range asked for is covered, then keys for all of them or for none.
Result<Mapped> answer_to(const Map& asked, Body body) {
  Mapped mapped;
  BlockAddress next = asked.blocks.start;
  uint64_t missing = asked.blocks.count;
  for (; missing > 0; body = body.subspan(sizeof(wire::HandleRecord))) {
    if (body.size() < sizeof(wire::HandleRecord)) return Error(EPROTO, "handles for fewer blocks than were mapped");
    const auto record = load<wire::HandleRecord>(body);
    const Handle handle{range_of(record.blocks), Access{record.access}, record.remote_address, record.remote_key};
    if (handle.blocks.start != next || handle.blocks.count == 0 || handle.blocks.count > missing ||
        handle.access != asked.access) {
      return Error(EPROTO, "handles for other blocks than were mapped");
    }
    next = handle.blocks.end();
    missing -= handle.blocks.count;
    mapped.handles.push_back(handle);
  }
  if (body.empty()) return mapped;
  mapped.keys = TRY(decode_array<QueuePairKeys>(body, mapped.handles.size()));
  if (mapped.keys.size() != mapped.handles.size()) return Error(EPROTO, "keys for other handles");
  return mapped;
}

Result<ListPage> answer_to(const List& asked, Body body) {
  if (body.size() < sizeof(wire::ListAnswer)) return Error(EPROTO, "frame has the wrong length");
  const auto head = load<wire::ListAnswer>(body);
  ListPage page;
  uint64_t least = raw(asked.cursor);
  for (const wire::RangeRecord& record :
       TRY(decode_array<wire::RangeRecord>(body.subspan(sizeof(head)), limits::kExtentsPerListPage))) {
    const BlockRange extent = range_of(record);
    if (!is_valid(extent) || record.start < least) return Error(EPROTO, "list is not in order");
    least = raw(extent.end());
    page.extents.push_back(extent);
  }
  if (head.more != 0) {
    if (head.cursor < least || head.cursor <= raw(asked.cursor)) return Error(EPROTO, "list does not get on");
    page.cursor = BlockAddress{head.cursor};
  }
  return page;
}

Result<BrickStat> answer_to(const Stat&, Body body) {
  const auto answer = TRY(wire::decode_grown<wire::StatAnswer>(body));
  BrickStat stat;
  stat.boot = BootId{answer.boot};
  stat.epoch = Epoch{answer.epoch};
  stat.volume_capacity_blocks = answer.volume_capacity_blocks;
  stat.volume_used_blocks = answer.volume_used_blocks;
  stat.volume_mapped_blocks = answer.volume_mapped_blocks;
  stat.brick_capacity_blocks = answer.brick_capacity_blocks;
  stat.brick_used_blocks = answer.brick_used_blocks;
  stat.memory_blocks = answer.memory_blocks;
  stat.resident_blocks = answer.resident_blocks;
  stat.allocatable_blocks = answer.allocatable_blocks;
  stat.sessions = answer.sessions;
  stat.commits = answer.commits;
  stat.committed_bytes = answer.committed_bytes;
  stat.durability = TRY(wire::durability_from(answer.durability));
  if (answer.held != 0) stat.holder = TRY(wire::from_record(answer.holder));
  stat.holder_away = answer.held == 2;
  stat.medium = TRY(wire::get_text(answer.medium));
  return stat;
}

Result<QueuePairOffer> answer_to(const QueuePair&, Body body) {
  const auto answer = TRY(wire::decode_grown<wire::QueuePairAnswer>(body));
  if (answer.pair >= limits::kQueuePairsPerSession) return Error(EPROTO, "the brick offers an impossible queue pair");
  return QueuePairOffer{answer.pair, answer.ticket};
}

Result<EndpointOffer> answer_to(const Endpoint&, Body body) {
  const auto answer = TRY(wire::decode_grown<wire::EndpointAnswer>(body));
  if (answer.pair >= limits::kQueuePairsPerSession || answer.name_bytes > sizeof(answer.name))
    return Error(EPROTO, "the brick offers an impossible endpoint");
  EndpointOffer offer;
  offer.pair = answer.pair;
  offer.virtual_addresses = (answer.flags & wire::kVirtualAddresses) != 0;
  offer.high_keys = answer.high_keys;
  offer.flush_key = answer.flush_key;
  offer.flush_address = answer.flush_address;
  offer.provider = TRY(wire::get_text(answer.provider));
  const auto name = std::as_bytes(std::span(answer.name)).first(answer.name_bytes);
  offer.name.assign(name.begin(), name.end());
  return offer;
}

Result<KeyPage> answer_to(const Keys& asked, Body body) {
  KeyPage page{TRY(decode_array<KeyRecord>(body, kKeysPerPage))};
  uint32_t before = asked.after;
  for (const KeyRecord& record : page.keys) {
    if (record.id <= before) return Error(EPROTO, "keys do not get on");
    before = record.id;
  }
  return page;
}

Result<Notices> answer_to(const Wait& asked, Body body) {
  Notices told{TRY(decode_array<Notice>(body, asked.seen.size()))};
  if (told.notices.size() != asked.seen.size()) return Error(EPROTO, "notices of other tags");
  return told;
}

}  // namespace

Kind kind_of(const Request& request) {
  return std::visit([](const auto& call) { return call.kKind; }, request);
}

bool is_of_session(const Request& request) {
  const Kind kind = kind_of(request);
  return (kind >= Kind::kRenew && kind <= Kind::kKeys) || kind == Kind::kEndpoint;
}

Status check(const Request& request) {
  return std::visit(
      Overloaded{
          [](const Alloc& call) { return check_range(call.blocks); },
          [](const Free& call) { return check_range(call.blocks); },
          [](const Unmap& call) { return check_range(call.blocks); },
          [](const Map& call) {
            return is_known(call.access) ? check_range(call.blocks) : Status(Error(EINVAL, "an unknown access"));
          },
          [](const List& call) {
            return raw(call.cursor) % kBlockBytes == 0 ? Status() : Error(EINVAL, "a cursor that is no block address");
          },
          [](const Commit& call) {
            return call.ranges.size() <= limits::kRangesPerCommit ? Status()
                                                                  : Error(EINVAL, "too many ranges in one commit");
          },
          [](const Wait& call) {
            const bool counts = !call.seen.empty() && call.seen.size() <= limits::kTagsPerWait;
            const bool lasts = call.patience.count() >= 0 && call.patience <= limits::kWaitMost;
            return counts && lasts ? Status() : Error(EINVAL, "no valid wait");
          },
          [](const Admit& call) { return check_client(call.client); },
          [](const Expel& call) { return check_client(call.client); },
          [](const auto&) { return Status(); },
      },
      request);
}

Error explain(int status) {
  switch (status) {
    case ESTALE:  // why, the answer to OPEN says
      return Error(ENOTCONN, "the session has ended");
    case ENOSPC:
      return Error(status, "the brick is full");
    case EDQUOT:
      return Error(status, "the volume's quota is used up");
    case EEXIST:
      return Error(status, "a block exists already");
    case ENOENT:
      return Error(status, "a block does not exist");
    default:
      return Error(status, "the brick refused the call");
  }
}

Bytes encode(const Request& request) {
  return std::visit([](const auto& call) { return body_of(call); }, request);
}

Result<Request> decode_request(Kind kind, Body body) {
  switch (kind) {
    case Kind::kAlloc:
      return decode_ranged<Alloc>(body);
    case Kind::kFree:
      return decode_ranged<Free>(body);
    case Kind::kMap:
      return decode_map(body);
    case Kind::kUnmap:
      return decode_ranged<Unmap>(body);
    case Kind::kList:
      return Request(List{BlockAddress{TRY(decode<wire::ListCall>(body)).cursor}});
    case Kind::kCommit:
      return decode_commit(body);
    case Kind::kStat:
      return decode_empty<Stat>(body);
    case Kind::kRenew:
      return decode_empty<Renew>(body);
    case Kind::kClose:
      return decode_empty<Close>(body);
    case Kind::kQueuePair:
      return decode_empty<QueuePair>(body);
    case Kind::kDetach:
      return Request(Detach{TRY(decode<wire::DetachCall>(body)).pairs});
    case Kind::kKeys:
      return decode_keys(body);
    case Kind::kEndpoint:
      return decode_endpoint(body);
    case Kind::kNotify:
      return decode_notify(body);
    case Kind::kWait:
      return decode_wait(body);
    case Kind::kAdmit:
      return decode_of_client<Admit>(body);
    case Kind::kExpel:
      return decode_of_client<Expel>(body);
    case Kind::kOpen:
    case Kind::kAttach:
    case Kind::kAdminister:
    case Kind::kEcho:
      break;
  }
  return Error(EPROTO, "no such call");
}

Bytes encode(const Answer& answer) {
  return std::visit([](const auto& told) { return body_of(told); }, answer);
}

Result<Answer> decode_answer(const Request& request, Body body) {
  return std::visit([&](const auto& asked) { return to_answer(answer_to(asked, body)); }, request);
}

}  // namespace brickfs::calls
