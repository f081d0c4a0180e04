// SPDX-License-Identifier: Apache-2.0
#include "transport/brick/administration.h"

#include <string.h>

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
  if (volume.is_keyed) record.flags |= wire::kVolumeKeyed;
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
  volume.is_keyed = (record.flags & wire::kVolumeKeyed) != 0;
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

wire::KeyOfVolume to_record(const KeyStatus& key) {
  return {.id = static_cast<uint64_t>(key.id),
          .rights = static_cast<uint32_t>(key.rights),
          .sessions = key.sessions,
          .added_unix_seconds = key.added_unix_seconds};
}

bool is_right(uint32_t rights) {
  return rights == static_cast<uint32_t>(KeyRights::kReadOnly) ||
         rights == static_cast<uint32_t>(KeyRights::kReadWrite);
}

Result<KeyStatus> from_record(const wire::KeyOfVolume& record) {
  if (!is_right(record.rights)) return Error(EPROTO, "a key without rights");
  return KeyStatus{KeyId{record.id}, KeyRights{record.rights}, record.added_unix_seconds, record.sessions};
}

using PaddedKey = std::array<std::byte, kKeyBytes>;

// A key, or what stands for it on the wire, is made the other by this.
void apply_pad(PaddedKey& key, const Secret& administrators, const Nonces& nonces) {
  const Proof pad = make_proof(administrators, wire::kKeyPadPurpose, nonces, {});
  static_assert(sizeof(pad) == sizeof(key));
  for (size_t i = 0; i < key.size(); ++i) key[i] ^= pad[i];
}

Secret unpadded(PaddedKey key) {
  const auto* const text = reinterpret_cast<const char*>(key.data());
  size_t length = key.size();
  while (length > 0 && text[length - 1] == '\0') --length;
  Secret secret{std::string_view(text, length)};
  ::explicit_bzero(key.data(), key.size());
  return secret;
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
  if (request.action < AdminAction::kCreate || request.action > AdminAction::kListKeys) {
    return Error(EINVAL, "no such action");
  }
  if (request.action == AdminAction::kAddKey) {
    TRY(check_key(request.key.secret));
    if (!is_right(static_cast<uint32_t>(request.key.rights))) return Error(EINVAL, "no rights of a key");
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

bool is_about_keys(AdminAction action) { return action >= AdminAction::kAddKey && action <= AdminAction::kListKeys; }

wire::KeyCall to_key_call(const AdminRequest& request, const Secret& administrators, const Nonces& nonces) {
  wire::KeyCall call;
  call.action = static_cast<uint32_t>(request.action);
  wire::put_text(call.volume, request.volume);
  if (request.action == AdminAction::kRemoveKey) call.id = static_cast<uint64_t>(request.key.id);
  if (request.action != AdminAction::kAddKey) return call;
  call.rights = static_cast<uint32_t>(request.key.rights);
  const std::string_view key = request.key.secret.bytes.view();
  std::memcpy(call.key.data(), key.data(), std::min(key.size(), call.key.size()));
  apply_pad(call.key, administrators, nonces);
  return call;
}

Result<AdminRequest> from_key_call(const wire::KeyCall& call, const Secret& administrators, const Nonces& nonces) {
  AdminRequest request;
  request.action = AdminAction{call.action};
  if (!is_about_keys(request.action)) return Error(EPROTO, "no call about keys");
  request.volume = TRY(wire::get_text(call.volume));
  request.key.id = KeyId{call.id};
  if (request.action != AdminAction::kAddKey) return request;
  PaddedKey key = call.key;
  apply_pad(key, administrators, nonces);
  request.key.secret = unpadded(key);
  ::explicit_bzero(key.data(), key.size());
  request.key.rights = KeyRights{call.rights};
  request.key.id = key_id_of(request.key.secret);
  return request;
}

std::vector<std::byte> encode(const AdminAnswer& answer) {
  if (!answer.keys.empty()) return encode_records<wire::KeyOfVolume>(answer.keys, answer.more);
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
  if (is_about_keys(action) && status == 0) {
    if (head.count > 0) TRY(decode_records<wire::KeyOfVolume>(head, body, answer.keys));
  } else if (action == AdminAction::kClients && head.count > 0) {
    TRY(decode_records<wire::ClientRecord>(head, body, answer.clients));
  } else {
    TRY(decode_records<wire::VolumeRecord>(head, body, answer.volumes));
  }
  return answer;
}

}  // namespace brickfs
