// SPDX-License-Identifier: Apache-2.0
#include "transport/remote/remote_brick.h"

#include <utility>

namespace brickfs {
namespace {

Error no_session() { return Error(ENOTCONN, "no session"); }

}  // namespace

void RemoteBrick::set_on_lost(std::function<void(Error)> callback) {
  MutexLock lock(mutex_);
  on_lost_ = std::move(callback);
}

// The old session's transfers are over before it is let go, so that wait() finds them complete whatever it finds here.
void RemoteBrick::drop_link() {
  if (link_.get() == nullptr) return;
  link_.get()->stop();
  link_.take_away();
}

// From the link's own thread.
void RemoteBrick::tell_lost(Error error) const {
  std::function<void(Error)> callback;
  {
    MutexLock lock(mutex_);
    callback = on_lost_;
  }
  if (callback) callback(error);
}

Result<Session> RemoteBrick::open(const OpenRequest& request, Holder* holder) {
  TRY(check_open(request));
  drop_link();
  auto link = TRY(connect(request, holder, [this](Error error) { tell_lost(error); }));
  Session session = link->session();
  session.transport = link->describe();
  link_.put(std::move(link));
  return session;
}

Status RemoteBrick::close() {
  if (link_.get() == nullptr) return no_session();
  const Status status = link_.get()->close();
  drop_link();
  return status;
}

Result<calls::Answer> RemoteBrick::call(const calls::Request& request) {
  TRY(calls::check(request));
  if (calls::is_of_session(request)) return Error(EINVAL, "a call of the two ends of a session");
  const Guard link(link_);
  if (!link) return no_session();
  const auto* const wait = std::get_if<calls::Wait>(&request);
  if ((wait != nullptr || std::holds_alternative<calls::Notify>(request)) && !link->session().notifications)
    return Error(EOPNOTSUPP, "the brick is older than notifications");
  const bool is_of_writers =
      std::holds_alternative<calls::Admit>(request) || std::holds_alternative<calls::Expel>(request);
  if (is_of_writers && !link->session().writing_followers)
    return Error(EOPNOTSUPP, "the brick is older than followers that write");
  auto answer = wait != nullptr ? link->wait_for_notices(*wait) : link->call(request);
  if (!answer.ok()) return answer;
  if (auto* const stat = std::get_if<BrickStat>(&*answer)) stat->transport = link->describe();
  return answer;
}

Status RemoteBrick::make_visible() {
  const Guard link(link_);
  return link ? link->flush() : Status(no_session());
}

std::chrono::milliseconds RemoteBrick::silence(Asking asking) {
  const Guard link(link_);
  return link ? link->silence(asking) : std::chrono::milliseconds(0);
}

std::chrono::steady_clock::time_point RemoteBrick::known_at() {
  const Guard link(link_);
  return link ? link->known_at() : std::chrono::steady_clock::time_point();
}

void RemoteBrick::submit(Batch& batch) {
  const Guard link(link_);
  if (link) return link->submit(batch);
  batch.begin(1);
  batch.finish_one(batch.transfers.empty() ? 0 : ENOTCONN);
}

Status RemoteBrick::wait(Batch& batch) {
  if (!batch.complete()) {
    const Guard link(link_);
    if (link) link->wait(batch);
  }
  return batch.status();
}

}  // namespace brickfs
