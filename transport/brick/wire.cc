// SPDX-License-Identifier: Apache-2.0
#include "transport/brick/wire.h"

#include <algorithm>

namespace brickfs::wire {
namespace {

Result<Access> access_from(uint32_t value) {
  if (value != static_cast<uint32_t>(Access::kRead) && value != static_cast<uint32_t>(Access::kReadWrite)) {
    return Error(EPROTO, "unknown access");
  }
  return Access{value};
}

Result<Durability> durability_from(uint32_t value) {
  if (value != static_cast<uint32_t>(Durability::kVolatile) && value != static_cast<uint32_t>(Durability::kDurable)) {
    return Error(EPROTO, "unknown durability");
  }
  return Durability{value};
}

}  // namespace

std::vector<std::byte> encode(std::span<const std::byte> head, std::span<const std::byte> tail) {
  std::vector<std::byte> body(head.begin(), head.end());
  body.insert(body.end(), tail.begin(), tail.end());
  return body;
}

void put_text(std::span<char> field, std::string_view text) {
  std::fill(field.begin(), field.end(), '\0');
  std::copy_n(text.begin(), std::min(text.size(), field.size() - 1), field.begin());
}

Result<std::string> get_text(std::span<const char> field) {
  const auto end = std::find(field.begin(), field.end(), '\0');
  if (end == field.end()) return Error(EPROTO, "text without an end");
  std::string text(field.begin(), end);
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  return text;
}

RangeRecord to_record(const BlockRange& blocks) { return {raw(blocks.start), blocks.count}; }
BlockRange from_record(const RangeRecord& record) { return {BlockAddress{record.start}, record.count}; }

OpenCall to_call(const OpenRequest& request) {
  OpenCall call;
  call.client = static_cast<uint64_t>(request.client);
  call.resume = static_cast<uint64_t>(request.resume);
  call.ended = static_cast<uint64_t>(request.ended);
  call.mode = static_cast<uint32_t>(request.mode);
  call.flags = request.steal ? kOpenSteal : 0;
  put_text(call.volume, request.volume);
  put_text(call.client_name, request.client_name);
  return call;
}

Result<OpenRequest> from_call(const OpenCall& call) {
  if (call.client == 0 || call.mode < static_cast<uint32_t>(OpenMode::kExclusive) ||
      call.mode > static_cast<uint32_t>(OpenMode::kObserve) || (call.flags & ~kOpenSteal) != 0) {
    return Error(EPROTO, "malformed OPEN");
  }
  OpenRequest request;
  request.client = ClientId{call.client};
  request.resume = Epoch{call.resume};
  request.ended = ClientId{call.ended};
  request.mode = OpenMode{call.mode};
  request.steal = (call.flags & kOpenSteal) != 0;
  request.volume = TRY(get_text(call.volume));
  request.client_name = TRY(get_text(call.client_name));
  return request;
}

OpenAnswer to_answer(const Session& session) {
  OpenAnswer answer;
  answer.epoch = static_cast<uint64_t>(session.epoch);
  answer.boot = static_cast<uint64_t>(session.boot);
  answer.capacity_blocks = session.capacity_blocks;
  answer.memory_blocks = session.memory_blocks;
  answer.suspect_blocks = session.suspect_blocks;
  answer.durability = static_cast<uint32_t>(session.durability);
  answer.tcp_port = session.tcp_port;
  return answer;
}

Result<Session> from_answer(const OpenAnswer& answer) {
  Session session;
  session.epoch = Epoch{answer.epoch};
  session.boot = BootId{answer.boot};
  session.capacity_blocks = answer.capacity_blocks;
  session.memory_blocks = answer.memory_blocks;
  session.suspect_blocks = answer.suspect_blocks;
  session.durability = TRY(durability_from(answer.durability));
  session.tcp_port = answer.tcp_port;
  return session;
}

HolderRecord to_record(const Holder& holder) {
  HolderRecord record;
  record.since_unix_seconds = holder.since_unix_seconds;
  record.client = static_cast<uint64_t>(holder.client);
  record.kept_for_ms = static_cast<uint32_t>(holder.kept_for.count());
  put_text(record.name, holder.name);
  return record;
}

Result<Holder> from_record(const HolderRecord& record) {
  Holder holder;
  holder.since_unix_seconds = record.since_unix_seconds;
  holder.client = ClientId{record.client};
  holder.kept_for = std::chrono::milliseconds(record.kept_for_ms);
  holder.name = TRY(get_text(record.name));
  return holder;
}

std::vector<std::byte> encode_handles(std::span<const Handle> handles) {
  std::vector<HandleRecord> records;
  records.reserve(handles.size());
  for (const Handle& handle : handles) {
    records.push_back(
        {to_record(handle.blocks), handle.remote_address, handle.remote_key, static_cast<uint32_t>(handle.access)});
  }
  return encode(std::as_bytes(std::span(records)));
}

Result<std::vector<Handle>> decode_handles(std::span<const std::byte> body, const BlockRange& asked, Access access) {
  std::vector<Handle> handles;
  BlockAddress next = asked.start;
  uint64_t missing = asked.count;
  for (const HandleRecord& record : TRY(decode_array<HandleRecord>(body, limits::kBlocksPerCall))) {
    Handle handle;
    handle.blocks = from_record(record.blocks);
    handle.access = TRY(access_from(record.access));
    handle.remote_address = record.remote_address;
    handle.remote_key = record.remote_key;
    if (handle.blocks.start != next || handle.blocks.count == 0 || handle.blocks.count > missing ||
        handle.access != access) {
      return Error(EPROTO, "handles for other blocks than were mapped");
    }
    next = handle.blocks.end();
    missing -= handle.blocks.count;
    handles.push_back(handle);
  }
  if (missing != 0) return Error(EPROTO, "handles for fewer blocks than were mapped");
  return handles;
}

std::vector<std::byte> encode_list(const ListPage& page) {
  ListAnswer head;
  head.more = page.cursor.has_value() ? 1 : 0;
  head.cursor = page.cursor ? raw(*page.cursor) : 0;
  std::vector<RangeRecord> records;
  records.reserve(page.extents.size());
  for (const BlockRange& extent : page.extents) records.push_back(to_record(extent));
  return encode(bytes_of(head), std::as_bytes(std::span(records)));
}

Result<ListPage> decode_list(std::span<const std::byte> body, BlockAddress from) {
  if (body.size() < sizeof(ListAnswer)) return Error(EPROTO, "frame has the wrong length");
  const auto head = load<ListAnswer>(body);
  ListPage page;
  uint64_t least = raw(from);
  for (const RangeRecord& record :
       TRY(decode_array<RangeRecord>(body.subspan(sizeof(ListAnswer)), limits::kExtentsPerListPage))) {
    const BlockRange extent = from_record(record);
    if (!is_valid(extent) || record.start < least) return Error(EPROTO, "list is not in order");
    least = raw(extent.end());
    page.extents.push_back(extent);
  }
  if (head.more != 0) {
    if (head.cursor < least || head.cursor <= raw(from)) return Error(EPROTO, "list does not get on");
    page.cursor = BlockAddress{head.cursor};
  }
  return page;
}

std::vector<std::byte> encode_commit(std::span<const CommitRange> ranges) {
  std::vector<CommitRecord> records;
  records.reserve(ranges.size());
  for (const CommitRange& range : ranges) {
    records.push_back({range.address, range.length_bytes, range.after_previous ? kCommitAfterPrevious : 0, 0});
  }
  return encode(std::as_bytes(std::span(records)));
}

Result<std::vector<CommitRange>> decode_commit(std::span<const std::byte> body) {
  std::vector<CommitRange> ranges;
  for (const CommitRecord& record : TRY(decode_array<CommitRecord>(body, limits::kRangesPerCommit))) {
    if ((record.flags & ~kCommitAfterPrevious) != 0) return Error(EPROTO, "unknown flag of a commit range");
    ranges.push_back({record.address, record.length_bytes, record.flags != 0});
  }
  return ranges;
}

StatAnswer to_answer(const BrickStat& stat) {
  StatAnswer answer;
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
  if (stat.holder) answer.holder = to_record(*stat.holder);
  put_text(answer.medium, stat.medium);
  return answer;
}

Result<BrickStat> from_answer(const StatAnswer& answer) {
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
  stat.durability = TRY(durability_from(answer.durability));
  if (answer.held != 0) stat.holder = TRY(from_record(answer.holder));
  stat.holder_away = answer.held == 2;
  stat.medium = TRY(get_text(answer.medium));
  return stat;
}

}  // namespace brickfs::wire
