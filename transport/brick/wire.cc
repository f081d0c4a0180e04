// SPDX-License-Identifier: Apache-2.0
#include "transport/brick/wire.h"

#include <algorithm>

namespace brickfs::wire {

Result<Durability> durability_from(uint32_t value) {
  if (value != static_cast<uint32_t>(Durability::kVolatile) && value != static_cast<uint32_t>(Durability::kDurable)) {
    return Error(EPROTO, "unknown durability");
  }
  return Durability{value};
}

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

OpenCall to_call(const OpenRequest& request) {
  OpenCall call;
  call.client = static_cast<uint64_t>(request.client);
  call.resume = static_cast<uint64_t>(request.resume);
  call.ended = static_cast<uint64_t>(request.ended);
  call.mode = static_cast<uint32_t>(request.mode);
  call.flags = (request.steal ? kOpenSteal : 0) | (request.bound ? kOpenBound : 0) | (request.writes ? kOpenWrites : 0);
  put_text(call.volume, request.volume);
  put_text(call.client_name, request.client_name);
  return call;
}

Result<OpenRequest> from_call(const OpenCall& call) {
  if (call.client == 0 || call.mode < static_cast<uint32_t>(OpenMode::kExclusive) ||
      call.mode > static_cast<uint32_t>(OpenMode::kFollow) ||
      (call.flags & ~(kOpenSteal | kOpenBound | kOpenWrites)) != 0) {
    return Error(EPROTO, "malformed OPEN");
  }
  OpenRequest request;
  request.client = ClientId{call.client};
  request.resume = Epoch{call.resume};
  request.ended = ClientId{call.ended};
  request.mode = OpenMode{call.mode};
  request.steal = (call.flags & kOpenSteal) != 0;
  request.bound = (call.flags & kOpenBound) != 0;
  request.writes = (call.flags & kOpenWrites) != 0;
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
  answer.lease_ms = static_cast<uint32_t>(session.lease.count());
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
  session.lease = std::chrono::milliseconds(answer.lease_ms);
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

}  // namespace brickfs::wire
