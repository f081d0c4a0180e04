// SPDX-License-Identifier: Apache-2.0
// A session as its RDMA connections share it: the channels for calls, so that they can be shut down, and what its lanes
// reach.
// Threads: every method from any thread.
#pragma once

#include <cstddef>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "server/service/brick_service.h"
#include "server/verbs/access.h"
#include "transport/base/mutex.h"
#include "transport/brick/wire.h"
#include "transport/verbs/message_channel.h"

namespace brickfs {

class VerbsSession {
 public:
  explicit VerbsSession(VerbsDevices& devices);

  // Once, before any other thread knows the session.
  void set_server_session(std::unique_ptr<ServerSession> session) { session_ = std::move(session); }
  ServerSession& server_session() { return *session_; }
  const std::shared_ptr<VerbsAccess>& access() const { return access_; }
  const wire::Token& token() const { return token_; }

  // `keeps`: the session lives as long as one of these. ENOTCONN: the session is over; ENOBUFS: it has
  // limits::kConnectionsPerSession.
  Status add_channel(verbs::MessageChannel& channel, bool keeps);
  // Before it is destroyed. True: none keeps the session any more, so it has ended.
  bool remove_channel(verbs::MessageChannel& channel);

  // Runs a call, unless it ran already: a client that lost the answer asks again elsewhere, with the same id. For calls
  // whose answer has no body.
  Status once(uint64_t id, const std::function<Status()>& call);

  // cut_off(), and the handles die.
  void end();
  // Nothing of the peer reaches memory any more on return, and its channels are shut down. Idempotent.
  void cut_off();

 private:
  struct Ran {
    uint64_t id;
    std::optional<Status> status;  // none: under way
  };
  struct Member {
    verbs::MessageChannel* channel;
    bool keeps;
  };

  wire::Token token_{};
  const std::shared_ptr<VerbsAccess> access_;
  std::unique_ptr<ServerSession> session_;

  Mutex mutex_;
  std::vector<Member> channels_ ABSL_GUARDED_BY(mutex_);
  std::list<Ran> ran_ ABSL_GUARDED_BY(mutex_);  // the last ones, oldest first
  CondVar ran_changed_;
  bool over_ ABSL_GUARDED_BY(mutex_) = false;
};

// The sessions that further connections may join, by token or by a lane's ticket.
class VerbsSessions {
 public:
  void add(std::shared_ptr<VerbsSession> session);
  void remove(const VerbsSession& session);
  std::shared_ptr<VerbsSession> find(const wire::Token& token);               // null: no such session
  std::shared_ptr<VerbsSession> find_by_ticket(const verbs::Ticket& ticket);  // null: nobody offered it
  void end_all();

 private:
  std::vector<std::shared_ptr<VerbsSession>> all();

  Mutex mutex_;
  std::map<wire::Token, std::shared_ptr<VerbsSession>> sessions_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace brickfs
