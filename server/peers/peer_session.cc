// SPDX-License-Identifier: Apache-2.0
#include "server/peers/peer_session.h"

#include <algorithm>

#include "server/service/server_limits.h"
#include "transport/base/random.h"

namespace brickfs {
namespace {

constexpr size_t kRemembered = 32;  // more than a client has calls under way

}  // namespace

PeerSession::PeerSession(std::shared_ptr<RemoteAccess> access, Credential proved)
    : access_(std::move(access)), proved_(std::move(proved)) {
  fill_random(token_);
}

PeerEnd PeerSession::end_of(const std::shared_ptr<PeerSession>& session) {
  const auto cut_off = [weak = std::weak_ptr(session), access = session->access_] {
    if (access != nullptr) access->cut_off();
    if (const auto alive = weak.lock()) alive->cut_off();
  };
  return {cut_off, session->access_, session->proved_};
}

Status PeerSession::add_channel(Channel& channel, bool keeps) {
  MutexLock lock(mutex_);
  if (over_) return Error(ENOTCONN, "the session is over");
  if (channels_.size() >= limits::kConnectionsPerSession) return Error(ENOBUFS, "too many connections in a session");
  channels_.push_back({&channel, keeps});
  return {};
}

size_t PeerSession::connections() const {
  MutexLock lock(mutex_);
  return channels_.size();
}

bool PeerSession::remove_channel(Channel& channel) {
  {
    MutexLock lock(mutex_);
    std::erase_if(channels_, [&](const Member& member) { return member.channel == &channel; });
    if (std::ranges::any_of(channels_, &Member::keeps)) return false;
  }
  end();
  return true;
}

Result<calls::Answer> PeerSession::call(uint64_t id, const calls::Request& request,
                                        const ServerSession::Abandoned& abandoned) {
  const auto run = [&] { return session_->call(request, abandoned); };
  const calls::Kind kind = calls::kind_of(request);
  const bool counts = kind == calls::Kind::kAlloc || kind == calls::Kind::kFree || kind == calls::Kind::kUnmap ||
                      kind == calls::Kind::kNotify || kind == calls::Kind::kAdmit || kind == calls::Kind::kExpel;
  return counts ? once(id, run) : run();
}

Result<calls::Answer> PeerSession::once(uint64_t id, const std::function<Result<calls::Answer>()>& call) {
  MutexLock lock(mutex_);
  const auto known = std::ranges::find_if(ran_, [&](const auto& ran) { return ran->id == id; });
  if (known != ran_.end()) {
    const auto before = *known;  // which may be forgotten as soon as it is answered
    while (!before->answer) ran_changed_.wait(lock);
    return *before->answer;
  }
  while (ran_.size() >= kRemembered && ran_.front()->answer) ran_.pop_front();
  const auto now = ran_.emplace_back(std::make_shared<Ran>(Ran{id, std::nullopt}));
  lock.unlock();
  auto answer = call();
  lock.lock();
  now->answer = answer;
  ran_changed_.notify_all();
  return answer;
}

bool PeerSession::begin_transfer() {
  MutexLock lock(mutex_);
  if (over_) return false;
  ++transfers_;
  return true;
}

void PeerSession::end_transfer() {
  MutexLock lock(mutex_);
  if (--transfers_ == 0 && over_) quiet_.notify_all();
}

void PeerSession::cut_off() {
  if (access_ != nullptr) access_->cut_off();
  MutexLock lock(mutex_);
  over_ = true;
  for (const Member& member : channels_) member.channel->shut_down();
  while (transfers_ > 0) quiet_.wait(lock);
}

void PeerSession::end() {
  cut_off();
  session_->disconnect();
}

void PeerSessions::add(std::shared_ptr<PeerSession> session) {
  MutexLock lock(mutex_);
  sessions_.emplace(session->token(), std::move(session));
}

void PeerSessions::remove(const PeerSession& session) {
  MutexLock lock(mutex_);
  sessions_.erase(session.token());
}

std::shared_ptr<PeerSession> PeerSessions::find(const wire::Token& token) {
  MutexLock lock(mutex_);
  const auto found = sessions_.find(token);
  return found == sessions_.end() ? nullptr : found->second;
}

void PeerSessions::end_all() {
  std::vector<std::shared_ptr<PeerSession>> all;
  {
    MutexLock lock(mutex_);
    for (const auto& [token, session] : sessions_) all.push_back(session);
  }
  for (const auto& session : all) session->end();
}

}  // namespace brickfs
