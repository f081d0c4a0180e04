// SPDX-License-Identifier: Apache-2.0
// How a link comes by its paths, loses them and gets them back.

#include <algorithm>

#include "transport/base/log.h"
#include "transport/brick/limits.h"
#include "transport/onesided/link.h"

namespace brickfs::onesided {
namespace {

constexpr std::chrono::milliseconds kMendFirst{250};
constexpr std::chrono::milliseconds kMendMost{2'000};
constexpr std::chrono::seconds kTrialFirst{4};
constexpr std::chrono::seconds kTrialMost{64};

// So that a session's are enough for all.
static_assert(limits::kAddressesPerBrick <= limits::kQueuePairsPerSession);
size_t pairs_of_path(size_t paths, size_t most) {
  return std::clamp<size_t>(limits::kQueuePairsPerSession / paths, 1, most);
}

}  // namespace

Result<std::shared_ptr<Path>> Link::make_path(const HostPort& address, std::unique_ptr<Channel> calls,
                                              Deadline latest) {
  auto path = std::make_shared<Path>();
  path->address = address;
  path->device = connector_.device_of(*calls);
  path->calls = std::make_shared<CallChannel>(std::move(calls));
  if (observes_) return path;
  path->commits = std::make_unique<CallChannel>(TRY(attach_one(address, wire::Role::kCalls, latest)));
  return path;
}

Result<std::unique_ptr<Channel>> Link::attach_one(const HostPort& address, wire::Role role, Deadline latest) {
  return prove_with(peer_.secret, opened_by_, [&](const Secret& known) -> Result<std::unique_ptr<Channel>> {
    auto greeted = TRY(connector_.greet(address, latest, peer_.secret.tls(), known));
    TRY(attach(*greeted.channel, greeted.nonces, known, token_, role, greeted.deadline));
    return std::move(greeted.channel);
  });
}

Result<std::unique_ptr<Channel>> Link::attach_calls(Deadline latest) {
  const auto path = live_path();
  if (!path) return Error(ENOTCONN, "the connection to the brick is gone");
  return attach_one(path->address, wire::Role::kCalls, latest);
}

// By way of the path's own connection for calls.
Result<calls::Answer> Link::ask_on(CallChannel& channel, const calls::Request& request, Deadline latest) {
  const auto patience = std::chrono::duration_cast<std::chrono::milliseconds>(latest - Clock::now());
  if (patience.count() <= 0) return Error(ETIMEDOUT, "brick does not answer");
  if (is_over()) return Error(ENOTCONN, "the session has ended");
  const Reply reply = TRY(channel.call(next_id(), request, patience));
  if (reply.status == EPROTONOSUPPORT) return Error(EPROTONOSUPPORT, "the brick does not serve by that provider");
  if (reply.status != 0) return Error(ENOTCONN, "the brick has no queue pair for us");
  return calls::decode_answer(request, reply.body);
}

Status Link::add_queue_pairs(Path& path, Deadline latest) {
  const Place place{path.address, path.calls->channel(),
                    [&](const calls::Request& request) { return ask_on(*path.calls, request, latest); },
                    // To be given back by DETACH, whatever comes of it.
                    [&](uint32_t pair) { path.pairs |= 1u << pair; }};
  const size_t wanted = pairs_of_path(peer_.addresses.size(), connector_.most_queue_pairs());
  for (size_t count = 0; count < wanted; ++count) {
    Connected made = TRY(connector_.connect(place, latest));
    path.handles = made.handles;
    if (made.end) path.pair_ends.push_back(std::move(made.end));
    TRY(learn_keys(made.pair->number(), *path.calls, latest));
    TRY(data_.add(std::move(made.pair)));
  }
  return {};
}

Status Link::learn_keys(uint32_t pair, CallChannel& channel, Deadline latest) {
  calls::Keys call{pair, 0};
  while (true) {
    const auto page = std::get<calls::KeyPage>(TRY(ask_on(channel, call, latest)));
    handles_.add_keys(call, page.keys);
    if (page.keys.size() < calls::kKeysPerPage) return {};
    call.after = page.keys.back().id;
  }
}

// From the keeper, which alone drains queue pairs.
void Link::handle_lost_paths() {
  const DataPath::QueuePairBits failed = data_.failed_queue_pairs();
  for (const auto& path : paths()) {
    if (!path) continue;
    if ((path->pairs & failed) != 0 || path->calls->dead() || (path->commits && path->commits->dead())) {
      path->lost.store(true);
    }
  }
  if (!lost() && !live_path()) lose(Error(ENOTCONN, "the connection to the brick is gone"));
  if (lost()) return data_.give_up();
  const Paths paths = this->paths();
  for (size_t number = 0; number < paths.size(); ++number) {
    if (paths[number] && paths[number]->lost.load()) lose_path(number, *paths[number]);
  }
}

// What was under way on it is done again elsewhere, but only when the brick has destroyed its ends, so that nothing can
// land late.
void Link::lose_path(size_t number, Path& path) {
  if (path.shut) return;
  log::warn("the way to the brick through {} ({}) is lost; going on without it", format_address(path.address),
            path.device);
  path.shut_down();
  const bool carried = data_.has_carried(path.pairs);
  const auto undone = data_.drain(path.pairs);
  judge(number, !carried && std::ranges::any_of(undone, [](const auto& pair) { return !pair.parts.empty(); }));
  path.pair_ends.clear();
  const auto reply = carry(calls::Detach{path.pairs}, limits::kCallTimeout);
  if (reply.ok() && reply->status == 0) {
    data_.repeat(undone);
    path.pairs = 0;
    path.shut = true;  // now its queue pairs' numbers may be others'
  } else {
    data_.give_up(undone);
    lose(Error(ENOTCONN, "the connection to the brick is gone"));
  }
  MutexLock lock(mutex_);
  mend_.notify_all();
}

// `in_vain`: the path that is lost has carried none of the transfers that it was given.
void Link::judge(size_t number, bool in_vain) {
  MutexLock lock(mutex_);
  auto& [pause, from] = trials_[number];
  pause = in_vain ? std::clamp(2 * pause, kTrialFirst, kTrialMost) : std::chrono::seconds(0);
  from = Clock::now() + pause;
  if (!in_vain) return;
  log::warn("{} was connected to, and no transfer came through: it is tried again in {} s",
            format_address(peer_.addresses[number]), pause.count());
}

// A link that is found down has gone for another reason, and is as good as before when it is back.
bool Link::is_due(size_t number) {
  {
    MutexLock lock(mutex_);
    if (Clock::now() >= trials_[number].from) return true;
  }
  const Status found = connector_.find_way(peer_.addresses[number], Clock::now() + limits::kConnectTimeout);
  if (found.ok() || found.code() == ETIMEDOUT) return false;
  MutexLock lock(mutex_);
  trials_[number] = {};
  return true;
}

// Pauses once all that are broken have been tried.
void Link::mend() {
  auto pause = kMendFirst;
  MutexLock lock(mutex_);
  while (!is_over()) {
    std::vector<size_t> broken;
    for (size_t number = 0; number < paths_.size(); ++number) {
      if (!paths_[number] || paths_[number]->lost.load()) broken.push_back(number);
    }
    if (broken.empty()) {
      pause = kMendFirst;
      mend_.wait(lock);
      continue;
    }
    lock.unlock();
    const auto mended = std::ranges::count_if(broken, [this](size_t number) { return mend_one(number); });
    lock.lock();
    if (mended == std::ssize(broken) || is_over()) continue;
    mend_.wait_for(lock, pause);
    pause = std::min(2 * pause, kMendMost);
  }
}

// True: that path is back.
bool Link::mend_one(size_t number) {
  if (is_over()) return false;
  if (const auto path = paths()[number]; path && !path->shut) return false;  // the keeper is at it
  if (!is_due(number)) return false;
  const HostPort& address = peer_.addresses[number];
  const Deadline latest = Clock::now() + limits::kConnectTimeout + limits::kHandshakeTimeout;
  const auto bring_back = [&]() -> Result<std::shared_ptr<Path>> {
    auto calls = TRY(attach_one(address, wire::Role::kKeeper, latest));
    auto path = TRY(make_path(address, std::move(calls), latest));
    const Status added = observes_ ? Status() : add_queue_pairs(*path, latest);
    if (!added.ok()) {
      // Its queue pairs, if there are any, are the keeper's to clear away.
      path->lost.store(true);
      log::debug("{}: {}", format_address(address), added.error().what());
    }
    return path;
  };
  auto made = bring_back();
  if (!made.ok()) {
    log::debug("{} is not back yet: {}", format_address(address), made.error().what());
    return false;
  }
  const std::shared_ptr<Path> path = *std::move(made);
  const bool whole = !path->lost.load();
  auto former = path;  // then the one in its place: it goes with its last user
  {
    MutexLock lock(mutex_);
    paths_[number].swap(former);
    if (is_over()) path->shut_down();
  }
  wake_keeper();
  if (whole) log::info("the brick is reached through {} ({}) too", format_address(address), path->device);
  return whole;
}

Link::Paths Link::paths() const {
  MutexLock lock(mutex_);
  return paths_;
}

std::shared_ptr<Path> Link::live_path() const {
  MutexLock lock(mutex_);
  for (const auto& path : paths_) {
    if (path && !path->lost.load()) return path;
  }
  return nullptr;
}

}  // namespace brickfs::onesided
