// SPDX-License-Identifier: Apache-2.0
#include "transport/brick/administration.h"

#include <algorithm>
#include <cstring>

#include "transport/brick/volume_name.h"

namespace brickfs {
namespace {

constexpr uint64_t kNoSize = UINT64_MAX;

wire::VolumeRecord to_record(const VolumeStatus& volume) {
  wire::VolumeRecord record;
  wire::put_text(record.name, volume.name);
  record.size_blocks = volume.size_blocks.value_or(kNoSize);
  record.used_blocks = volume.used_blocks;
  record.mapped_blocks = volume.mapped_blocks;
  record.resident_blocks = volume.resident_blocks;
  record.epoch = static_cast<uint64_t>(volume.epoch);
  record.held = !volume.holder ? 0 : volume.holder_away ? 2 : 1;
  if (volume.is_configured) record.flags |= wire::kVolumeConfigured;
  if (volume.size_is_configured) record.flags |= wire::kVolumeSizeConfigured;
  record.readers = volume.readers;
  record.observers = volume.observers;
  if (volume.holder) record.holder = wire::to_record(*volume.holder);
  return record;
}

Result<VolumeStatus> from_record(const wire::VolumeRecord& record) {
  VolumeStatus volume;
  volume.name = TRY(wire::get_text(record.name));
  if (!is_volume_name(volume.name)) return Error(EPROTO, "a volume without a name");
  if (record.size_blocks != kNoSize) volume.size_blocks = record.size_blocks;
  volume.used_blocks = record.used_blocks;
  volume.mapped_blocks = record.mapped_blocks;
  volume.resident_blocks = record.resident_blocks;
  volume.epoch = Epoch{record.epoch};
  if (record.held != 0) volume.holder = TRY(wire::from_record(record.holder));
  volume.holder_away = record.held == 2;
  volume.readers = record.readers;
  volume.observers = record.observers;
  volume.is_configured = (record.flags & wire::kVolumeConfigured) != 0;
  volume.size_is_configured = (record.flags & wire::kVolumeSizeConfigured) != 0;
  return volume;
}

wire::ClientRecord to_record(const ClientStatus& client) {
  wire::ClientRecord record;
  record.number = client.number;
  wire::put_text(record.volume, client.volume);
  record.mode = static_cast<uint32_t>(client.mode);
  record.holder = wire::to_record(client.holder);
  record.calls = client.calls;
  record.commits = client.commits;
  record.committed_bytes = client.committed_bytes;
  record.reads = client.reads;
  record.read_bytes = client.read_bytes;
  record.writes = client.writes;
  record.written_bytes = client.written_bytes;
  return record;
}

Result<ClientStatus> from_record(const wire::ClientRecord& record) {
  ClientStatus client;
  client.number = record.number;
  client.volume = TRY(wire::get_text(record.volume));
  if (!is_volume_name(client.volume)) return Error(EPROTO, "a client without a volume");
  client.mode = OpenMode{record.mode};
  if (client.mode < OpenMode::kExclusive || client.mode > OpenMode::kFollow) return Error(EPROTO, "unknown mode");
  client.holder = TRY(wire::from_record(record.holder));
  client.calls = record.calls;
  client.commits = record.commits;
  client.committed_bytes = record.committed_bytes;
  client.reads = record.reads;
  client.read_bytes = record.read_bytes;
  client.writes = record.writes;
  client.written_bytes = record.written_bytes;
  return client;
}

template <typename Record, typename Of>
std::vector<std::byte> encode_records(const std::vector<Of>& all, bool more) {
  wire::AdminAnswerHead head;
  head.count = static_cast<uint32_t>(all.size());
  head.more = more ? 1 : 0;
  head.record_bytes = sizeof(Record);
  std::vector<Record> records;
  records.reserve(all.size());
  for (const Of& one : all) records.push_back(to_record(one));
  return wire::encode(bytes_of(head), std::as_bytes(std::span(records)));
}

// Records may be longer than they are known to be here.
template <typename Record, typename Of>
Status decode_records(const wire::AdminAnswerHead& head, std::span<const std::byte> body, std::vector<Of>& all) {
  if (head.count > wire::kRecordsPerPage || head.record_bytes < Record::kLeastBytes ||
      body.size() != uint64_t{head.count} * head.record_bytes) {
    return Error(EPROTO, "frame has the wrong length");
  }
  for (; !body.empty(); body = body.subspan(head.record_bytes)) {
    const auto record = TRY(wire::decode_grown<Record>(body.first(head.record_bytes)));
    all.push_back(TRY(from_record(record)));
  }
  if (head.more != 0 && all.empty()) return Error(EPROTO, "list does not get on");
  return {};
}

}  // namespace

Status check(const AdminRequest& request) {
  const bool lists = request.action == AdminAction::kList || request.action == AdminAction::kClients;
  const bool sized = request.action == AdminAction::kCreate || request.action == AdminAction::kResize;
  if (request.action < AdminAction::kCreate || request.action > AdminAction::kClients) {
    return Error(EINVAL, "no such action");
  }
  if (!is_volume_name(request.volume) && !(lists && request.volume.empty())) return Error(EINVAL, "no volume's name");
  if (request.action == AdminAction::kCreate && !is_new_volume_name(request.volume))
    return Error(EINVAL, "no name for a new volume");
  if (request.size_blocks && (!sized || *request.size_blocks == 0 || *request.size_blocks >= kNoSize)) {
    return Error(EINVAL, "no size of a volume");
  }
  if (request.force && request.action != AdminAction::kRemove) return Error(EINVAL, "only what is removed is forced");
  return {};
}

wire::AdminCall to_call(const AdminRequest& request) {
  wire::AdminCall call;
  call.action = static_cast<uint32_t>(request.action);
  call.flags = request.force ? wire::kAdminForce : 0;
  call.size_blocks = request.action == AdminAction::kClients ? request.behind : request.size_blocks.value_or(kNoSize);
  wire::put_text(call.volume, request.volume);
  return call;
}

Result<AdminRequest> from_call(const wire::AdminCall& call) {
  if ((call.flags & ~wire::kAdminForce) != 0) return Error(EPROTO, "unknown flags of an administrator's call");
  AdminRequest request;
  request.action = AdminAction{call.action};
  request.volume = TRY(wire::get_text(call.volume));
  if (request.action == AdminAction::kClients) {
    request.behind = call.size_blocks;
  } else if (call.size_blocks != kNoSize) {
    request.size_blocks = call.size_blocks;
  }
  request.force = (call.flags & wire::kAdminForce) != 0;
  return request;
}

std::vector<std::byte> encode(const AdminAnswer& answer) {
  if (!answer.clients.empty()) return encode_records<wire::ClientRecord>(answer.clients, answer.more);
  return encode_records<wire::VolumeRecord>(answer.volumes, answer.more);
}

Result<AdminAnswer> decode_admin_answer(AdminAction action, int status, std::span<const std::byte> body) {
  AdminAnswer answer;
  answer.status = status;
  if (status != 0 && body.empty()) return answer;
  if (body.size() < sizeof(wire::AdminAnswerHead)) return Error(EPROTO, "frame has the wrong length");
  const auto head = load<wire::AdminAnswerHead>(body);
  body = body.subspan(sizeof(head));
  answer.more = head.more != 0;
  if (action == AdminAction::kClients && head.count > 0) {
    TRY(decode_records<wire::ClientRecord>(head, body, answer.clients));
  } else {
    TRY(decode_records<wire::VolumeRecord>(head, body, answer.volumes));
  }
  return answer;
}

}  // namespace brickfs
