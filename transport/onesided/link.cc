// SPDX-License-Identifier: Apache-2.0
#include "transport/onesided/link.h"

#include <poll.h>

#include <algorithm>

#include "transport/brick/limits.h"

namespace brickfs::onesided {

Result<std::unique_ptr<Link>> Link::open(const Peer& peer, Connector& connector, LocalMemory& memory,
                                         const OpenRequest& request, Holder* holder,
                                         std::function<void(Error)> on_lost) {
  const Deadline latest = Clock::now() + limits::kConnectTimeout + limits::kHandshakeTimeout;
  Error error(EHOSTUNREACH, "no address");
  Result<Opened> opened = error;
  std::unique_ptr<Channel> channel;
  const auto open_by = [&](const HostPort& address, Deadline before) -> Result<Opened> {
    return prove_with(peer.secret, [&](const Secret& known) -> Result<Opened> {
      auto greeted = TRY(connector.greet(address, before, peer.secret.tls(), known));
      channel = std::move(greeted.channel);
      return open_session(*channel, greeted.nonces, known, request, holder, greeted.deadline);
    });
  };
  size_t number = 0;
  for (size_t i = 0; i < peer.addresses.size(); ++i) {
    const auto now = Clock::now();
    const auto share = (latest - now) / static_cast<int64_t>(peer.addresses.size() - i);
    opened = open_by(peer.addresses[i], now + share);
    number = i;
    if (opened.ok()) break;
    error = more_telling(error, opened.error());
    if (is_brick_answer(opened.error())) break;
  }
  if (!opened.ok()) return error;
  std::unique_ptr<Link> link(new Link(peer, connector, memory, request, *opened, std::move(on_lost)));
  const Status begun = link->begin(number, std::move(channel), latest);
  if (!begun.ok()) return begun.error();
  return link;
}

Link::Link(const Peer& peer, Connector& connector, LocalMemory& memory, const OpenRequest& request,
           const Opened& opened, std::function<void(Error)> on_lost)
    : RemoteLink(opened.session, std::move(on_lost)),
      peer_(peer),
      connector_(connector),
      token_(opened.token),
      opened_by_(opened.secret),
      observes_(request.mode == OpenMode::kObserve),
      paths_(peer.addresses.size()),
      trials_(peer.addresses.size()),
      data_(memory, handles_, [this] { wake_keeper(); }) {}

Link::~Link() { Link::stop(); }

Status Link::begin(size_t number, std::unique_ptr<Channel> calls, Deadline latest) {
  const auto add_path = [&]() -> Status {
    auto path = TRY(make_path(peer_.addresses[number], std::move(calls), latest));
    {
      MutexLock lock(mutex_);
      paths_[number] = path;
    }
    return observes_ ? Status() : add_queue_pairs(*path, latest);
  };
  if (wake_watch().fd < 0) return Error(EMFILE, "eventfd");
  const Status added = add_path();
  if (!added.ok() && !says_cut_off(added)) return added;
  if (!added.ok()) lose(Error(ENOTCONN, "the session ended at once"));
  start_keeper();
  if (peer_.addresses.size() > 1) mender_ = std::thread([this] { mend(); });
  return {};
}

std::string Link::describe() const {
  std::string text;
  for (const auto& path : paths()) {
    if (!path || path->lost.load()) continue;
    text += (text.empty() ? "" : "; ") + path->device;
    if (!path->handles.empty()) text += ", " + path->handles;
  }
  return std::string(connector_.transport()) + " (" + text + ")";
}

// On one path after the other until one answers. The brick knows the call by its id, and does it once.
Result<Reply> Link::carry(const calls::Request& request, std::chrono::milliseconds timeout) {
  const uint64_t id = next_id();
  const bool commits = calls::kind_of(request) == calls::Kind::kCommit;
  while (true) {
    if (const auto error = lost()) return *error;
    const auto path = live_path();
    if (!path) return Error(ENOTCONN, "the connection to the brick is gone");
    CallChannel& channel = commits && path->commits ? *path->commits : *path->calls;
    auto reply = channel.call(id, request, timeout);
    if (reply.ok() || reply.error().is(EPROTO)) return reply;
    path->lost.store(true);
    wake_keeper();
  }
}

Result<calls::Answer> Link::call(const calls::Request& request) {
  return std::visit(calls::Overloaded{
                        [&](const calls::Map&) { return map(request); },
                        [&](const calls::Unmap& call) { return revoke(request, call.blocks); },
                        [&](const calls::Free& call) { return revoke(request, call.blocks); },
                        [&](const calls::Commit&) { return ask_flushed(request); },
                        [&](const calls::Notify&) { return ask_flushed(request); },
                        [&](const auto&) { return ask(request); },
                    },
                    request);
}

Result<calls::Answer> Link::ask_flushed(const calls::Request& request) {
  TRY(flush());
  return ask(request);
}

Result<calls::Answer> Link::map(const calls::Request& request) {
  auto answer = TRY(ask(request));
  auto mapped = handles_.add(std::get<calls::Mapped>(std::move(answer)));
  if (!mapped.ok()) lose(mapped.error());
  return calls::to_answer(std::move(mapped));
}

Result<calls::Answer> Link::revoke(const calls::Request& request, BlockRange blocks) {
  const auto taken = handles_.take_out(blocks);
  for (const auto& mapping : taken) data_.wait_unused(*mapping);
  TRY(flush());
  auto answer = ask(request);
  if (answer.ok()) {
    handles_.forget(taken);
  } else if (!lost()) {
    handles_.put_back(taken);  // a refusal leaves everything as it was
  }
  return answer;
}

Status Link::flush() {
  const Status flushed = data_.flush();
  if (!flushed.ok()) lose(flushed.error());
  return flushed;
}

std::shared_ptr<CallChannel> Link::calls() const {
  const auto path = live_path();
  return path ? path->calls : nullptr;
}

void Link::watch(Deadline until) {
  std::vector<pollfd> watched = {wake_watch()};
  std::vector<std::pair<std::function<bool()>, Path*>> ends;
  const auto add = [&](pollfd entry, std::function<bool()> has_ended, Path& path) {
    watched.push_back(entry);
    ends.emplace_back(std::move(has_ended), &path);
  };
  const Paths paths = this->paths();
  for (const auto& path : paths) {
    if (!path || path->lost.load()) continue;
    for (CallChannel* const calls : {path->calls.get(), path->commits.get()}) {
      if (calls == nullptr) continue;
      add(
          calls->channel().watch(), [calls] { return calls->channel().peer_has_gone(); }, *path);
    }
    for (const auto& end : path->pair_ends) {
      add(
          end->watch(), [&end] { return end->has_ended(); }, *path);
    }
  }
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
  ::poll(watched.data(), watched.size(), static_cast<int>(std::max<int64_t>(left, 0)));
  if (watched[0].revents != 0) take_wake();
  for (size_t i = 0; i < ends.size(); ++i) {
    if (watched[i + 1].revents != 0 && ends[i].first()) ends[i].second->lost.store(true);
  }
  handle_lost_paths();
}

void Link::renew() {
  data_.check_progress();
  for (const auto& path : paths()) {
    if (!path || path->lost.load() || path->calls->busy()) continue;
    const auto reply = path->calls->call(next_id(), calls::Renew{}, renew_timeout());
    if (!reply.ok()) {
      path->lost.store(true);
      wake_keeper();
    } else if (reply->status != 0) {
      lose(calls::explain(reply->status));
    }
  }
}

void Link::cut() {
  MutexLock lock(mutex_);
  for (const auto& path : paths_) {
    if (path) path->shut_down();
  }
  mend_.notify_all();
}

void Link::stop() {
  begin_stop();
  {
    MutexLock lock(mutex_);
    mend_.notify_all();
  }
  if (mender_.joinable()) mender_.join();
  join_keeper();
  handle_lost_paths();
  data_.stop();
}

}  // namespace brickfs::onesided
