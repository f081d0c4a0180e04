// SPDX-License-Identifier: Apache-2.0
// A session as its TCP connections share it: their sockets, so that it can be cut off, and the count of transfers under
// way, so that cutting off can wait until none touches a block any more.
// Threads: every method from any thread.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <vector>

#include "server/service/brick_service.h"
#include "transport/base/mutex.h"
#include "transport/brick/wire.h"

namespace brickfs {

class TcpSession {
 public:
  TcpSession();

  // Once, before any other thread knows the session.
  void set_server_session(std::unique_ptr<ServerSession> session) { session_ = std::move(session); }
  ServerSession& server_session() { return *session_; }
  const wire::Token& token() const { return token_; }

  // ENOTCONN: the session is over; ENOBUFS: it has limits::kConnectionsPerSession.
  Status add_socket(int fd);
  void remove_socket(int fd);  // before it is closed

  // Between the two a transfer may touch blocks. False: the session is over.
  bool begin_transfer();
  void end_transfer();
  // Shuts the sockets down; no transfer touches a block any more on return. Idempotent.
  void cut_off();
  // The client's connection for calls is gone: cut_off(), and the handles die.
  void end();

 private:
  wire::Token token_{};
  std::unique_ptr<ServerSession> session_;

  Mutex mutex_;
  CondVar quiet_;
  std::vector<int> sockets_ ABSL_GUARDED_BY(mutex_);
  size_t transfers_ ABSL_GUARDED_BY(mutex_) = 0;
  bool over_ ABSL_GUARDED_BY(mutex_) = false;
};

// The sessions that further connections may join, by token.
class TcpSessions {
 public:
  void add(std::shared_ptr<TcpSession> session);
  void remove(const TcpSession& session);
  std::shared_ptr<TcpSession> find(const wire::Token& token);  // null: no such session
  void end_all();

 private:
  Mutex mutex_;
  std::map<wire::Token, std::shared_ptr<TcpSession>> sessions_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace brickfs
