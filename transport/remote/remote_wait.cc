// SPDX-License-Identifier: Apache-2.0
// How a link waits for notifications: each wait has a connection to itself, which is kept for the next.
#include <algorithm>

#include "transport/brick/limits.h"
#include "transport/remote/remote_link.h"

namespace brickfs {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kMoment{1'000};  // a brick that is well answers by then
constexpr int kTries = 3;               // of connections that fail, or are of an address that does

}  // namespace

Result<calls::Answer> RemoteLink::wait_for_notices(const calls::Wait& request) {
  WaitPlace& place = *TRY(take_wait_place());
  const auto reply = carry_wait(place, request);
  give_wait_place(place);
  if (!reply.ok()) return lost().value_or(reply.error());
  return answer_in(request, *reply);
}

Result<RemoteLink::WaitPlace*> RemoteLink::take_wait_place() {
  MutexLock lock(mutex_);
  if (lost_) return *lost_;
  auto found = std::ranges::find_if(waits_, [](const auto& place) { return !place.taken && place.channel; });
  if (found == waits_.end()) found = std::ranges::find(waits_, false, &WaitPlace::taken);
  if (found == waits_.end()) return Error(EUSERS, "too many wait for notifications in this session");
  found->taken = true;
  return &*found;
}

void RemoteLink::give_wait_place(WaitPlace& place) {
  MutexLock lock(mutex_);
  place.taken = false;
}

// What the brick has not answered is asked for again.
Result<Reply> RemoteLink::carry_wait(WaitPlace& place, calls::Wait request) {
  const Deadline until = steady_clock::now() + request.patience;
  for (int tries = 1;; ++tries) {
    auto reply = try_wait(place, request, until);
    if (reply.ok() || reply.error().is(ETIMEDOUT) || tries == kTries || is_over()) return reply;
  }
}

Result<Reply> RemoteLink::try_wait(WaitPlace& place, calls::Wait& request, Deadline until) {
  const auto channel = TRY(connect_wait(place, until));
  const auto left = std::chrono::ceil<milliseconds>(until - steady_clock::now());
  request.patience = std::max(left, milliseconds(0));
  auto reply = channel->call(next_id(), request, request.patience + kMoment);
  if (!reply.ok()) drop_wait_channel(place);
  return reply;
}

Result<std::shared_ptr<CallChannel>> RemoteLink::connect_wait(WaitPlace& place, Deadline until) {
  {
    MutexLock lock(mutex_);
    if (place.channel) return place.channel;
  }
  const Deadline now = steady_clock::now();
  const Deadline latest = std::clamp<Deadline>(until, now + kMoment, now + limits::kConnectTimeout);
  auto attached = attach_calls(latest);
  if (!attached.ok()) {
    if (attached.error().is(ETIMEDOUT)) return attached.error();
    return Error(ENOTCONN, attached.error().what());
  }
  MutexLock lock(mutex_);
  if (lost_) return *lost_;
  place.channel = std::make_shared<CallChannel>(std::move(*attached));
  return place.channel;
}

void RemoteLink::drop_wait_channel(WaitPlace& place) {
  MutexLock lock(mutex_);
  place.channel = nullptr;
}

void RemoteLink::cut_waits() {
  MutexLock lock(mutex_);
  for (const WaitPlace& place : waits_) {
    if (place.channel) place.channel->shut_down();
  }
}

}  // namespace brickfs
