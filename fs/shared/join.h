// SPDX-License-Identifier: Apache-2.0
// How a member and its coordinator meet: the coordinator's address, which its name tells to whom a brick refuses the
// volume (transport/membership/coordinator_name.h), and the first call of each connection, JOIN, by which both prove
// that they know the volume's secret. docs/protocol.md, "Shared volumes".
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "transport/base/result.h"
#include "transport/brick/brick.h"
#include "transport/brick/channel.h"
#include "transport/brick/proof.h"
#include "transport/brick/source.h"
#include "transport/brick/wire.h"

namespace brickfs::shared {

// How others reach this host: its address towards that one. EHOSTUNREACH and others.
Result<std::string> address_towards(const HostPort& peer);

using SessionId = uint64_t;           // of a member; 0: none
constexpr uint32_t kMostSlots = 64;   // of a member: calls at a time, each on a connection
constexpr uint32_t kRecallsSlot = 1;  // on which it awaits recalls

// Of the calls of a shared volume: another one with each change of what they carry. All of a volume are of one.
constexpr uint32_t kCallsVersion = 5;

struct JoinRequest {
  ClientId client{};
  ClientId coordinator{};  // who is to answer: another process may listen where that one did. 0: whoever does
  SessionId session = 0;   // one that there is; 0: a new one
  wire::Token token{};     // of that session
  uint32_t slot = 0;       // which of its connections
  uint32_t version = kCallsVersion;
  bool read_only = false;
  std::string volume;
  std::string name;  // for people
};
struct Joined {
  SessionId session = 0;
  wire::Token token{};
  ClientId coordinator{};
  Durability durability = Durability::kVolatile;
  std::chrono::milliseconds lease{0};  // a member not heard of for so long is expelled
};

// The member's side. ESTALE: there is no such session any more; ENOENT: another volume; EACCES: the secret differs;
// EAGAIN: the coordinator is not ready yet; ECONNREFUSED: there is another one; EPROTONOSUPPORT: its calls are of
// another version; EROFS; EUSERS. What cannot prove that it knows the secret: EKEYREJECTED.
Result<Joined> join(Channel& channel, const Nonces& nonces, const Secret& secret, const JoinRequest& request,
                    Deadline deadline);

// The coordinator's.
constexpr auto kJoin = wire::Kind{19};
// By which secret the call is proved: EACCES, EPROTO.
Result<Secret> check_join(const Secret& secret, const Nonces& nonces, const Message& call);
Result<JoinRequest> request_in(const Message& call);  // of a call that is proved
// With a proof, unless the secret is what is wrong.
Status answer_join(Channel& channel, const Nonces& nonces, const Secret& secret, const Message& call,
                   const Result<Joined>& joined);

}  // namespace brickfs::shared
