// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/link.h"

#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>

#include "transport/brick/brick_calls.h"
#include "transport/brick/limits.h"
#include "transport/brick/remote_calls.h"

namespace brickfs::verbs {
namespace {

// A brick that does not answer a renewal for so long is given up while the lease still lasts.
constexpr auto kRenewTimeout = limits::kLease - limits::kKeepAlive;

}  // namespace

Result<std::unique_ptr<Link>> Link::open(const Peer& peer, LocalMemory& memory, const OpenRequest& request,
                                         Holder* holder, std::function<void(Error)> on_lost) {
  const Deadline latest = Clock::now() + limits::kConnectTimeout + limits::kHandshakeTimeout;
  Error error(EHOSTUNREACH, "no address");
  Result<Opened> opened = error;
  size_t number = 0;
  for (size_t i = 0; i < peer.addresses.size(); ++i) {
    const auto now = Clock::now();
    const auto share = (latest - now) / static_cast<int64_t>(peer.addresses.size() - i);
    opened = open_session(peer.addresses[i], peer.secret, request, holder, now + share);
    number = i;
    if (opened.ok()) break;
    error = more_telling(error, opened.error());
    if (is_brick_answer(opened.error())) break;
  }
  if (!opened.ok()) return error;
  std::unique_ptr<Link> link(new Link(peer, memory, request, *opened, std::move(on_lost)));
  const Status begun = link->begin(number, std::move(opened->channel), latest);
  if (!begun.ok()) return begun.error();
  return link;
}

Link::Link(const Peer& peer, LocalMemory& memory, const OpenRequest& request, const Opened& opened,
           std::function<void(Error)> on_lost)
    : peer_(peer),
      memory_(memory),
      session_(opened.session),
      token_(opened.token),
      observes_(request.mode == OpenMode::kObserve),
      on_lost_(std::move(on_lost)),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      rails_(peer.addresses.size()),
      data_(memory, handles_, [this] { wake_keeper(); }) {}

Link::~Link() { stop(); }

Status Link::begin(size_t number, std::unique_ptr<MessageChannel> calls, Deadline latest) {
  const auto add_rail = [&]() -> Status {
    auto rail = TRY(make_rail(peer_.addresses[number], std::move(calls), latest));
    {
      MutexLock lock(mutex_);
      rails_[number] = rail;
    }
    return observes_ ? Status() : add_lanes(*rail, latest);
  };
  const Status added = add_rail();
  // Taken over meanwhile: the lease was granted all the same, and the session is lost like any other.
  const bool cut_off = added.code() == EACCES || added.code() == ENOTCONN || added.code() == ECONNREFUSED ||
                       added.code() == EKEYREJECTED;
  if (!added.ok() && !cut_off) return added;
  if (cut_off) lose(Error(ENOTCONN, "the session ended at once"));
  keeper_ = std::thread([this] { keep_alive(); });
  if (peer_.addresses.size() > 1) mender_ = std::thread([this] { mend(); });
  return {};
}

std::string Link::describe() const {
  std::string text;
  for (const auto& rail : rails()) {
    if (!rail || rail->lost.load()) continue;
    text += (text.empty() ? "" : "; ") + rail->device;
    if (!observes_) text += rail->windows ? ", type-2 windows" : ", a region for each run";
  }
  return "rdma (" + text + ")";
}

// On one rail after the other until one answers. The brick knows the call by its id, and does it once.
Result<Answer> Link::call_on_rails(wire::Kind kind, std::span<const std::byte> body) {
  const uint64_t id = ++last_id_;
  while (true) {
    if (const auto error = lost()) return *error;
    const auto rail = live_rail();
    if (!rail) return Error(ENOTCONN, "the connection to the brick is gone");
    CallChannel& channel = kind == wire::Kind::kCommit && rail->commits ? *rail->commits : *rail->calls;
    auto answer = channel.call(kind, id, body, limits::kCallTimeout);
    if (answer.ok() || answer.error().is(EPROTO)) return answer;
    rail->lost.store(true);
    wake_keeper();
  }
}

Result<std::vector<std::byte>> Link::call(wire::Kind kind, std::span<const std::byte> body) {
  auto answer = call_on_rails(kind, body);
  if (!answer.ok()) {
    const auto before = lost();
    lose(answer.error());
    return before.value_or(answer.error());
  }
  if (answer->status == 0) return std::move(answer->body);
  const Error error = explain_call(answer->status);
  if (error.is(ENOTCONN)) lose(error);
  return error;
}

Result<std::vector<Handle>> Link::map(BlockRange blocks, Access access) {
  const wire::MapCall asked{wire::to_record(blocks), static_cast<uint32_t>(access), 0};
  const auto body = TRY(call(wire::Kind::kMap, bytes_of(asked)));
  return checked(*this, handles_.add(body, blocks, access));
}

Status Link::revoke(wire::Kind kind, BlockRange blocks) {
  const auto taken = handles_.take_out(blocks);
  for (const auto& mapping : taken) data_.wait_unused(*mapping);
  TRY(flush());
  const auto answer = call(kind, bytes_of(wire::to_record(blocks)));
  if (answer.ok()) {
    handles_.forget(taken);
    return {};
  }
  if (!lost()) handles_.put_back(taken);  // a refusal leaves everything as it was
  return answer.error();
}

Status Link::commit(std::span<const std::byte> body) {
  TRY(flush());
  TRY(call(wire::Kind::kCommit, body));
  return {};
}

Status Link::flush() {
  const Status flushed = data_.flush();
  if (!flushed.ok()) lose(flushed.error());
  return flushed;
}

// Of the brick's process: its memory answers without it.
std::chrono::milliseconds Link::silence() {
  const auto rail = live_rail();
  if (!rail) return {};
  if (!rail->calls->busy() && !ask_.exchange(true)) wake_keeper();
  return rail->calls->silence();
}

void Link::keep_alive() {
  auto next_renewal = Clock::now() + limits::kKeepAlive;
  while (true) {
    wait_for_events(next_renewal);
    handle_lost_rails();
    {
      MutexLock lock(mutex_);
      if (stopping_) return;
      if (lost_) {
        const Error error = *lost_;
        lock.unlock();
        on_lost_(error);
        return;
      }
    }
    if (!ask_.exchange(false) && Clock::now() < next_renewal) continue;
    data_.check_progress();
    renew();
    next_renewal = Clock::now() + limits::kKeepAlive;
  }
}

// Until a connection ends, somebody calls, or it is time.
void Link::wait_for_events(Deadline deadline) {
  std::vector<pollfd> watched = {pollfd{wake_.get(), POLLIN, 0}};
  std::vector<std::pair<rdma_event_channel*, Rail*>> channels;
  const Rails rails = this->rails();
  for (const auto& rail : rails) {
    if (!rail || rail->lost.load()) continue;
    channels.emplace_back(&rail->calls->events(), rail.get());
    if (rail->commits) channels.emplace_back(&rail->commits->events(), rail.get());
    for (rdma_event_channel* const events : rail->lane_events) channels.emplace_back(events, rail.get());
  }
  for (const auto& [channel, rail] : channels) watched.push_back({channel->fd, POLLIN, 0});
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
  ::poll(watched.data(), watched.size(), static_cast<int>(std::max<int64_t>(left, 0)));
  uint64_t count = 0;
  if (watched[0].revents != 0) [[maybe_unused]]
    const ssize_t got = ::read(wake_.get(), &count, sizeof(count));
  for (size_t i = 0; i < channels.size(); ++i) {
    if (watched[i + 1].revents != 0 && has_ended(*channels[i].first)) channels[i].second->lost.store(true);
  }
}

void Link::renew() {
  for (const auto& rail : rails()) {
    if (!rail || rail->lost.load() || rail->calls->busy()) continue;
    const auto answer = rail->calls->call(wire::Kind::kRenew, ++last_id_, {}, kRenewTimeout);
    if (!answer.ok()) {
      rail->lost.store(true);
      wake_keeper();
    } else if (answer->status != 0) {
      lose(explain_call(answer->status));
    }
  }
}

std::optional<Error> Link::lost() const {
  MutexLock lock(mutex_);
  return lost_;
}

void Link::wake_keeper() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(wake_.get(), &one, sizeof(one));  // full: it is awake already
}

void Link::lose(Error error) {
  {
    MutexLock lock(mutex_);
    if (lost_) return;
    lost_ = Error(ENOTCONN, error.what());
    for (const auto& rail : rails_) {
      if (rail) rail->shut_down();
    }
    mend_.notify_all();
  }
  wake_keeper();
}

Status Link::close() {
  const auto rail = live_rail();
  {
    MutexLock lock(mutex_);
    if (lost_) return *lost_;
    stopping_ = true;
  }
  Result<Answer> answer = Error(ENOTCONN, "the connection to the brick is gone");
  if (rail && data_.flush().ok())
    answer = rail->calls->call(wire::Kind::kClose, ++last_id_, {}, limits::kHandshakeTimeout);
  stop();
  if (!answer.ok()) return answer.error();
  if (answer->status != 0) return explain_call(answer->status);
  return {};
}

void Link::stop() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    mend_.notify_all();
  }
  lose(Error(ENOTCONN, "the session has ended"));
  wake_keeper();
  if (mender_.joinable()) mender_.join();
  if (keeper_.joinable()) keeper_.join();
  handle_lost_rails();
  data_.stop();
}

}  // namespace brickfs::verbs
