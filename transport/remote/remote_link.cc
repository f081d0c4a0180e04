// SPDX-License-Identifier: Apache-2.0
#include "transport/remote/remote_link.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <utility>

#include "transport/brick/limits.h"

namespace brickfs {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

RemoteLink::RemoteLink(Session session, std::function<void(Error)> on_lost)
    : session_(std::move(session)), on_lost_(std::move(on_lost)), wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

bool RemoteLink::says_cut_off(const Status& attached) {
  const int code = attached.code();
  return code == EACCES || code == ENOTCONN || code == ECONNREFUSED || code == EKEYREJECTED;
}

Result<calls::Answer> RemoteLink::ask(const calls::Request& request) {
  const auto reply = carry(request, limits::kCallTimeout);
  if (!reply.ok()) {
    const auto before = lost();
    lose(reply.error());
    return before.value_or(reply.error());
  }
  return answer_in(request, *reply);
}

Result<calls::Answer> RemoteLink::answer_in(const calls::Request& request, const Reply& reply) {
  if (reply.status != 0) {
    const Error error = calls::explain(reply.status);
    if (error.is(ENOTCONN)) lose(error);
    return error;
  }
  auto answer = calls::decode_answer(request, reply.body);
  if (!answer.ok()) lose(answer.error());
  return answer;
}

milliseconds RemoteLink::silence(Asking asking) {
  const auto channel = calls();
  if (channel == nullptr) return {};
  if (asking == Asking::kYes && !channel->busy() && !ask_.exchange(true)) wake_keeper();
  return std::max(channel->silence(), stall());
}

steady_clock::time_point RemoteLink::known_at() const {
  const auto channel = calls();
  return channel == nullptr ? steady_clock::time_point() : channel->known_at();
}

void RemoteLink::keep_alive() {
  auto next_renewal = steady_clock::now() + limits::kKeepAlive;
  while (true) {
    watch(next_renewal);
    {
      MutexLock lock(mutex_);
      if (lost_) {
        const Error error = *lost_;
        const bool tells = !stopping_;
        lock.unlock();
        watch(steady_clock::now());  // the last one may have begun before the loss
        if (tells) on_lost_(error);
        return;
      }
    }
    if (!ask_.exchange(false) && steady_clock::now() < next_renewal) continue;
    renew();
    next_renewal = steady_clock::now() + limits::kKeepAlive;
  }
}

std::optional<Error> RemoteLink::lost() const {
  MutexLock lock(mutex_);
  return lost_;
}

bool RemoteLink::is_over() const {
  MutexLock lock(mutex_);
  return stopping_ || lost_;
}

void RemoteLink::wake_keeper() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(wake_.get(), &one, sizeof(one));  // full: it is awake already
}

void RemoteLink::take_wake() {
  uint64_t count = 0;
  [[maybe_unused]] const ssize_t got = ::read(wake_.get(), &count, sizeof(count));
}

void RemoteLink::lose(Error error) {
  {
    MutexLock lock(mutex_);
    if (lost_) return;
    lost_ = Error(ENOTCONN, error.what());
  }
  cut();
  cut_waits();
  wake_keeper();
}

// The keeper goes on until the session is lost: a connection may fail under the flush.
Status RemoteLink::close() {
  {
    MutexLock lock(mutex_);
    if (lost_) return *lost_;
    stopping_ = true;
  }
  Result<Reply> reply = Error(ENOTCONN, "the connection to the brick is gone");
  const Status flushed = flush();
  const auto channel = calls();
  if (channel != nullptr && flushed.ok()) reply = channel->call(next_id(), calls::Close{}, limits::kHandshakeTimeout);
  stop();
  if (!reply.ok()) return reply.error();
  return reply->status == 0 ? Status() : calls::explain(reply->status);
}

void RemoteLink::begin_stop() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
  }
  lose(Error(ENOTCONN, "the session has ended"));
  wake_keeper();
}

}  // namespace brickfs
