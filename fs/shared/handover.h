// SPDX-License-Identifier: Apache-2.0
// The volume is given to a member on purpose (brickctl handover): the first call of a connection, HANDOVER, asks the
// coordinator for that, who chooses the member and does it in his own time. Both prove that they know the volume's
// secret. docs/shared.md, "Handing over"; docs/protocol.md, "Shared volumes".
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>

#include "fs/shared/join.h"
#include "transport/base/result.h"
#include "transport/brick/channel.h"
#include "transport/brick/client_secret.h"
#include "transport/brick/proof.h"
#include "transport/brick/source.h"
#include "transport/brick/wire.h"

namespace brickfs::shared {

struct HandoverRequest {
  ClientId coordinator{};  // who is to answer, as the bricks know him
  std::string volume;
  std::string to;  // a member's name, or its host's; empty: whichever suits
};
// The member that takes the place. Or why nobody does, in one line: ENOENT: no such member; EROFS: it may change
// nothing; EALREADY: it coordinates, or a handover is under way; EAGAIN: not now; EOPNOTSUPP: not by this coordinator.
struct HandoverAnswer {
  int status = 0;
  SessionId session = 0;  // not told
  std::string text;       // its name, or the reason
};

// Asks, and waits for the answer, which comes before anything is done. Errors as connecting; EACCES: another secret;
// EKEYREJECTED: what answers does not know it; ECONNRESET: the coordinator does not know this call.
Result<HandoverAnswer> ask_handover(const HostPort& address, const ClientSecret& secret,
                                    const HandoverRequest& request);

// The coordinator's.
constexpr auto kHandover = wire::Kind{21};
// By which secret the call is proved: EACCES, EPROTO.
Result<Secret> check_handover(const Secret& secret, const Nonces& nonces, const Message& call);
Result<HandoverRequest> handover_in(const Message& call);  // of a call that is proved
Status answer_handover(Channel& channel, const Nonces& nonces, const Secret& secret, const Message& call,
                       const HandoverAnswer& answer);

// In the order in which they came.
struct HandoverCandidate {
  SessionId session = 0;
  std::string name;  // "host (pid 12)"
  bool read_only = false;
  bool is_heard = true;  // lately
};
// `own`: the coordinator's own session; 0: it has none.
HandoverAnswer choose_successor(std::span<const HandoverCandidate> candidates, SessionId own, const std::string& to);

// What the process of a coordinator can do about it.
class HandsOver {
 public:
  virtual ~HandsOver() = default;
  // As a member of itself; 0: it is none.
  virtual SessionId own_session() const = 0;
  // As a member would be called.
  virtual std::string own_name() const = 0;
  // Begins: the members are told who is next (Coordinator::name_successor), the volume is let go of. Does not wait for
  // that. EALREADY: it is under way; EOPNOTSUPP.
  virtual Status hand_over(const HandoverAnswer& to) = 0;
};

}  // namespace brickfs::shared
