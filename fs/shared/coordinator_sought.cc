// SPDX-License-Identifier: Apache-2.0
// A member whose coordinator does not answer: who has the volume now, and how it comes to that one.
#include <cerrno>
#include <chrono>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "fs/shared/coordinator_link.h"
#include "transport/base/log.h"

namespace brickfs::shared {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLookAtHolder{2'000};
constexpr milliseconds kLookForNext{250};    // when the coordinator's process is known to have ended
constexpr milliseconds kNextBegins{15'000};  // it waits for the former one's lease, and recovers

}  // namespace

// None: not now. Of a process that has ended its machine says so at once, where its port is closed; one that ends
// itself, and one whose volume another has, says EAGAIN.
std::optional<CoordinatorLink::Lost> CoordinatorLink::begin_to_seek(const Error& why) {
  const auto now = Clock::now();
  Lost lost;
  lost.is_dead = why.is(ECONNREFUSED) || why.is(EAGAIN);
  MutexLock lock(mutex_);
  if (stopping_ || final_) return std::nullopt;
  lost.next = next();
  lost.coordinator = coordinator_;
  lost.heard = heard_;
  const bool is_announced = lost.next != Lost::Next::kAnyone;
  if (is_announced) return lost;
  const auto pause = lost.is_dead ? kLookForNext : kLookAtHolder;
  if (now - looked_ < pause) return std::nullopt;
  const bool is_away = away_since_ && now - *away_since_ >= kLookAtHolder;
  return lost.is_dead || is_away ? std::optional(lost) : std::nullopt;
}

CoordinatorLink::Lost::Next CoordinatorLink::next() const {
  if (state_.successor == 0) return Lost::Next::kAnyone;
  return state_.successor == joined_.session ? Lost::Next::kThis : Lost::Next::kAnother;
}

bool CoordinatorLink::has_named_next() const {
  MutexLock lock(mutex_);
  return next() != Lost::Next::kAnyone;
}

void CoordinatorLink::seek_coordinator(const Error& why) {
  const auto lost = begin_to_seek(why);
  if (lost) follow(std::exchange(missed_, std::nullopt).value_or(*lost));
}

// To whoever is said to have the volume, until that one has it no more: the former one is fenced by then, and the next
// expels who does not come. One that begins yet says EAGAIN. So once there was a next one, that the bricks cannot be
// asked for a moment is no reason to try the former one again, who may be silent for as long as the next one waits.
void CoordinatorLink::follow(Lost lost) {
  const auto begins_until = Clock::now() + kNextBegins;
  bool has_next = lost.missed.has_value();
  while (true) {
    const auto sought = config_.seek(lost);
    looked_ = Clock::now();
    if (sought.ok() && sought->kind == Sought::Kind::kEnded) return end(Error(ESTALE, sought->why));
    const bool is_there = sought.ok() && sought->kind == Sought::Kind::kMoved;
    has_next |= is_there;
    if (!has_next || (is_there && has_moved_to(*sought, lost))) return;
    if (Clock::now() >= begins_until || is_over()) {
      missed_ = lost;
      return;
    }
    std::this_thread::sleep_for(kLookForNext);
  }
}

// Or has been turned away for good. `lost` is told of who does not answer.
bool CoordinatorLink::has_moved_to(const Sought& next, Lost& lost) {
  const Status moved = move_to(next);
  if (moved.code() == ESTALE) end(moved.error());
  if (moved.ok() || moved.code() == ESTALE) return true;
  if (moved.code() != EAGAIN) {
    lost.is_dead = moved.code() == ECONNREFUSED;
    lost.missed = next.coordinator;
  }
  return false;
}

// What is held is claimed before any other call is made there. Until then it is the former one's, if that comes back.
Status CoordinatorLink::move_to(const Sought& next) {
  Slot& slot = slots_[kKeepersSlot];
  std::unique_ptr<tcp::TcpChannel> channel;
  const Joined joined = TRY(join_at(next.address, next.coordinator, kKeepersSlot, channel));
  {
    MutexLock lock(mutex_);
    ++epoch_;
    for (Slot& each : slots_)
      if (each.channel) each.channel->shut_down();
    address_ = HostPort{"", 0};  // nobody's, until all is claimed
    bricks_away_since_.reset();
    slot.channel = std::move(channel);
  }
  const Status claimed = claim(slot);
  MutexLock lock(mutex_);
  if (!claimed.ok()) slot.channel = nullptr;
  if (!claimed.ok()) return claimed;
  coordinator_ = joined.coordinator;
  state_.successor = 0;
  address_ = next.address;
  ++moved_;
  log::info("the coordinator is the one at {} now", format_address(next.address));
  changed_.notify_all();
  return {};
}

Status CoordinatorLink::claim(Slot& slot) {
  std::vector<Claim> claims;
  if (claims_) claims = claims_();
  if (claims.empty()) claims.emplace_back();
  claims.front().is_first = true;
  claims.back().is_all = true;
  for (const Claim& part : claims) {
    ++slot.last;
    const Message answer = TRY(exchange(slot, kind_of<Claim>(), encode(part), {}, {}));
    if (answer.header.status != 0) return Error(answer.header.status, "what is held was not taken over");
  }
  return {};
}

}  // namespace brickfs::shared
