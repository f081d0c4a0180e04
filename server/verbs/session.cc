// SPDX-License-Identifier: Apache-2.0
#include "server/verbs/session.h"

#include <algorithm>

#include "server/service/server_limits.h"
#include "transport/base/random.h"
#include "transport/brick/proof.h"

namespace brickfs {
namespace {

constexpr size_t kRemembered = 32;  // more than a client has calls under way

}  // namespace

VerbsSession::VerbsSession(VerbsDevices& devices) : access_(std::make_shared<VerbsAccess>(devices)) {
  fill_random(token_);
}

Status VerbsSession::add_channel(verbs::MessageChannel& channel, bool keeps) {
  MutexLock lock(mutex_);
  if (over_) return Error(ENOTCONN, "the session is over");
  if (channels_.size() >= limits::kConnectionsPerSession) return Error(ENOBUFS, "too many connections in a session");
  channels_.push_back({&channel, keeps});
  return {};
}

bool VerbsSession::remove_channel(verbs::MessageChannel& channel) {
  {
    MutexLock lock(mutex_);
    std::erase_if(channels_, [&](const Member& member) { return member.channel == &channel; });
    if (std::ranges::any_of(channels_, &Member::keeps)) return false;
  }
  end();
  return true;
}

Status VerbsSession::once(uint64_t id, const std::function<Status()>& call) {
  MutexLock lock(mutex_);
  const auto before = std::ranges::find(ran_, id, &Ran::id);
  if (before != ran_.end()) {
    while (!before->status) ran_changed_.wait(lock);
    return *before->status;
  }
  if (ran_.size() >= kRemembered && ran_.front().status) ran_.pop_front();
  const auto now = ran_.insert(ran_.end(), {id, std::nullopt});
  lock.unlock();
  const Status status = call();
  lock.lock();
  now->status = status;
  ran_changed_.notify_all();
  return status;
}

void VerbsSession::cut_off() {
  access_->cut_off();
  MutexLock lock(mutex_);
  over_ = true;
  for (const Member& member : channels_) member.channel->shut_down();
}

void VerbsSession::end() {
  cut_off();
  session_->disconnect();
}

void VerbsSessions::add(std::shared_ptr<VerbsSession> session) {
  MutexLock lock(mutex_);
  sessions_.emplace(session->token(), std::move(session));
}

void VerbsSessions::remove(const VerbsSession& session) {
  MutexLock lock(mutex_);
  sessions_.erase(session.token());
}

std::shared_ptr<VerbsSession> VerbsSessions::find(const wire::Token& token) {
  MutexLock lock(mutex_);
  const auto found = sessions_.find(token);
  return found == sessions_.end() ? nullptr : found->second;
}

std::shared_ptr<VerbsSession> VerbsSessions::find_by_ticket(const verbs::Ticket& ticket) {
  for (const auto& session : all()) {
    if (session->access()->offered(ticket)) return session;
  }
  return nullptr;
}

std::vector<std::shared_ptr<VerbsSession>> VerbsSessions::all() {
  MutexLock lock(mutex_);
  std::vector<std::shared_ptr<VerbsSession>> all;
  for (const auto& [token, session] : sessions_) all.push_back(session);
  return all;
}

void VerbsSessions::end_all() {
  for (const auto& session : all()) session->end();
}

}  // namespace brickfs
