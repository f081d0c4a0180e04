// SPDX-License-Identifier: Apache-2.0
// What an administrator asks of a brick that serves: volumes made, resized, removed and listed, who its clients are,
// and keys of volumes. Each request is the first and only call of a connection, proved as a whole by the
// administrator's secret, and so is its answer. No session carries one: nothing that a client's secret can prove asks
// for any of it. docs/protocol.md, "Administration".
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "transport/base/result.h"
#include "transport/brick/brick.h"
#include "transport/brick/calls.h"
#include "transport/brick/volume_key.h"
#include "transport/brick/wire.h"

namespace brickfs {

enum class AdminAction : uint32_t {
  kCreate = 1,
  kResize = 2,
  kRemove = 3,
  kList = 4,
  kClients = 5,
  kAddKey = 6,
  kRemoveKey = 7,
  kListKeys = 8,
};

struct AdminRequest {
  AdminAction action = AdminAction::kList;
  std::string volume;                   // kList: those behind this name; empty: from the first on. kClients: of this
                                        // one; empty: of all
  std::optional<uint64_t> size_blocks;  // kCreate, kResize: it may allocate so many; none: as many as the brick has
  bool force = false;                   // kRemove: also one that is held, which cuts the holder off, or has blocks
  uint64_t behind = 0;                  // kClients: those with a higher number
  VolumeKey key{};                      // kAddKey: its secret and rights. kRemoveKey: its id
};

struct VolumeStatus {
  std::string name;
  std::optional<uint64_t> size_blocks;  // none: what the brick has
  uint64_t used_blocks = 0;             // allocated
  uint64_t mapped_blocks = 0;
  uint64_t resident_blocks = 0;  // in memory
  Epoch epoch{};
  std::optional<Holder> holder;  // one of them, if it has readers
  bool holder_away = false;      // has no session
  uint32_t readers = 0;
  uint32_t observers = 0;
  // By brickd's command line or configuration, which make it again, and give it that size again, at each start.
  bool is_configured = false;
  bool size_is_configured = false;
  bool is_keyed = false;  // its keys alone open it
};

struct KeyStatus {
  KeyId id{};
  KeyRights rights = KeyRights::kReadWrite;
  int64_t added_unix_seconds = 0;
  uint32_t sessions = 0;  // that came by it
};

// A session, and what it has done since it began.
struct ClientStatus {
  uint64_t number = 0;  // of the session, higher than of those before it since the brick started
  std::string volume;
  OpenMode mode = OpenMode::kObserve;
  Holder holder;       // as others see him
  uint64_t calls = 0;  // but for those that only say that it is there
  uint64_t commits = 0;
  uint64_t committed_bytes = 0;  // of the ranges that it named
  // Over TCP, where the brick moves the bytes.
  uint64_t reads = 0;
  uint64_t read_bytes = 0;
  uint64_t writes = 0;
  uint64_t written_bytes = 0;
};

// `status` is 0 or what the brick refuses with. EINVAL: a name or size against the rules. EEXIST. ENOENT. ENOSPC: it
// has limits::kVolumes. EDQUOT: more blocks are allocated than that. EBUSY: held. ENOTEMPTY: has blocks. EPERM:
// `default` stays. EIO: the store failed. Of keys: EEXIST: the volume has that one. ENOKEY: it has not. ENOBUFS: it has
// limits::kKeysOfVolume. ENOSPC: the brick has limits::kKeys. ENOTSUP: the store was made without room for keys.
struct AdminAnswer {
  int status = 0;
  // kList: ascending by name. Else, also with most refusals, the volume that was named: as it is now, or was.
  std::vector<VolumeStatus> volumes;
  std::vector<ClientStatus> clients;  // kClients: ascending by number
  std::vector<KeyStatus> keys;  // of calls about keys: the volume's, as they are now, in the order of their adding
  bool more = false;            // of kList and kClients: there are some behind the last
};

// EINVAL. Either side looks once.
Status check(const AdminRequest& request);

bool is_about_keys(AdminAction action);

// The bodies, without their proofs. EPROTO: bytes that no honest peer sends.
wire::AdminCall to_call(const AdminRequest& request);
Result<AdminRequest> from_call(const wire::AdminCall& call);
// A key that is added travels under a pad, which only both ends of this one connection can make: they know the
// administrator's secret.
wire::KeyCall to_key_call(const AdminRequest& request, const Secret& administrators, const Nonces& nonces);
Result<AdminRequest> from_key_call(const wire::KeyCall& call, const Secret& administrators, const Nonces& nonces);
std::vector<std::byte> encode(const AdminAnswer& answer);  // but for `status`
Result<AdminAnswer> decode_admin_answer(AdminAction action, int status, std::span<const std::byte> body);

}  // namespace brickfs
