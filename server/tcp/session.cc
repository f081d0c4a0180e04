// SPDX-License-Identifier: Apache-2.0
#include "server/tcp/session.h"

#include "server/service/server_limits.h"
#include "transport/base/random.h"
#include "transport/brick/proof.h"
#include "transport/tcp/socket.h"

namespace brickfs {

TcpSession::TcpSession() { fill_random(token_); }

Status TcpSession::add_socket(int fd) {
  MutexLock lock(mutex_);
  if (over_) return Error(ENOTCONN, "the session is over");
  if (sockets_.size() >= limits::kConnectionsPerSession) return Error(ENOBUFS, "too many connections in a session");
  sockets_.push_back(fd);
  return {};
}

void TcpSession::remove_socket(int fd) {
  MutexLock lock(mutex_);
  std::erase(sockets_, fd);
}

bool TcpSession::begin_transfer() {
  MutexLock lock(mutex_);
  if (over_) return false;
  ++transfers_;
  return true;
}

void TcpSession::end_transfer() {
  MutexLock lock(mutex_);
  if (--transfers_ == 0 && over_) quiet_.notify_all();
}

void TcpSession::cut_off() {
  MutexLock lock(mutex_);
  over_ = true;
  for (const int fd : sockets_) tcp::shut_down(fd);
  while (transfers_ > 0) quiet_.wait(lock);
}

void TcpSession::end() {
  cut_off();
  session_->disconnect();
}

void TcpSessions::add(std::shared_ptr<TcpSession> session) {
  MutexLock lock(mutex_);
  sessions_.emplace(session->token(), std::move(session));
}

void TcpSessions::remove(const TcpSession& session) {
  MutexLock lock(mutex_);
  sessions_.erase(session.token());
}

std::shared_ptr<TcpSession> TcpSessions::find(const wire::Token& token) {
  MutexLock lock(mutex_);
  const auto found = sessions_.find(token);
  return found == sessions_.end() ? nullptr : found->second;
}

void TcpSessions::end_all() {
  std::vector<std::shared_ptr<TcpSession>> all;
  {
    MutexLock lock(mutex_);
    for (const auto& [token, session] : sessions_) all.push_back(session);
  }
  for (const auto& session : all) session->end();
}

}  // namespace brickfs
