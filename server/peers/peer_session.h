// SPDX-License-Identifier: Apache-2.0
// A session as its peer's connections share it: their channels, so that it can be cut off; the count of transfers under
// way, so that cutting off can wait until none touches a block any more; and which calls ran.
// Threads: every method from any thread.
#pragma once

#include <cstddef>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "server/service/brick_service.h"
#include "transport/base/mutex.h"
#include "transport/brick/channel.h"
#include "transport/brick/volume_key.h"

namespace brickfs {

class PeerSession {
 public:
  // `access`: by which devices of the peer reach memory; null: none do. `proved`: by what it came.
  explicit PeerSession(std::shared_ptr<RemoteAccess> access, Credential proved = {});

  // What the brick calls to cut the session off. Owns what it needs.
  static PeerEnd end_of(const std::shared_ptr<PeerSession>& session);
  // Once, before any other thread knows the session.
  void set_server_session(SessionPtr session, std::string volume) {
    session_ = std::move(session);
    volume_ = std::move(volume);
  }
  ServerSession& server_session() { return *session_; }
  const std::string& volume() const { return volume_; }
  const Credential& proved() const { return proved_; }
  const wire::Token& token() const { return token_; }

  // `keeps`: the session lives as long as one of these. ENOTCONN: the session is over; ENOBUFS: it has
  // limits::kConnectionsPerSession.
  Status add_channel(Channel& channel, bool keeps);
  size_t connections() const;
  // Before it is destroyed. True: none keeps the session any more, so it has ended.
  bool remove_channel(Channel& channel);

  // A call that came over a wire. ALLOC, FREE, UNMAP and NOTIFY run once for each id: a client that lost the answer
  // asks again elsewhere, with the same id, and gets it when the first one is done.
  Result<calls::Answer> call(uint64_t id, const calls::Request& request, const ServerSession::Abandoned& abandoned);

  // Between the two a transfer of a connection may touch blocks. False: the session is over.
  bool begin_transfer();
  void end_transfer();
  // The channels are shut down, and nothing of the peer reaches memory any more on return. Idempotent.
  void cut_off();
  // cut_off(), and the handles die.
  void end();

 private:
  struct Ran {
    uint64_t id;
    std::optional<Result<calls::Answer>> answer;  // none: under way
  };
  struct Member {
    Channel* channel;
    bool keeps;
  };
  Result<calls::Answer> once(uint64_t id, const std::function<Result<calls::Answer>()>& call);

  wire::Token token_{};
  const std::shared_ptr<RemoteAccess> access_;
  const Credential proved_;
  SessionPtr session_;
  std::string volume_;

  mutable Mutex mutex_;
  CondVar quiet_;
  CondVar ran_changed_;
  std::vector<Member> channels_ ABSL_GUARDED_BY(mutex_);
  std::list<std::shared_ptr<Ran>> ran_ ABSL_GUARDED_BY(mutex_);  // the last ones, oldest first
  size_t transfers_ ABSL_GUARDED_BY(mutex_) = 0;
  bool over_ ABSL_GUARDED_BY(mutex_) = false;
};

// The sessions that further connections may join, by token.
class PeerSessions {
 public:
  void add(std::shared_ptr<PeerSession> session);
  void remove(const PeerSession& session);
  std::shared_ptr<PeerSession> find(const wire::Token& token);  // null: no such session
  void end_all();

 private:
  Mutex mutex_;
  std::map<wire::Token, std::shared_ptr<PeerSession>> sessions_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace brickfs
