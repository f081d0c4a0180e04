// SPDX-License-Identifier: Apache-2.0
#include "transport/membership/take_over.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>

#include "transport/base/log.h"
#include "transport/membership/client_identity.h"

namespace brickfs {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kAskEvery{250};
// Who said that he takes the volume, and has not done so or given it up for so long, has died.
constexpr std::chrono::milliseconds kTakerHasDied{30'000};
constexpr int kChanges = 10;  // as long as the holder changes the map meanwhile

}  // namespace

Status TakeOverNotice::load(std::string* why) {
  const Status loaded = keeper_.load();
  if (!loaded.ok()) *why = keeper_.trouble();
  return loaded;
}

Status TakeOverNotice::put(std::string* why) {
  for (int left = kChanges; left > 0; --left) {
    TRY(load(why));
    TRY(give_way(why));
    const Status put = keeper_.announce([&](SetMap& map) { map.taker = self_; });
    stands_ = put.code() != EAGAIN;  // also if no answer came
    if (!put.ok() && stands_) *why = keeper_.trouble();
    if (stands_) return put;
  }
  *why = "the map of the volume is changing: try again";
  return Error(EBUSY, "replicated set");
}

Status TakeOverNotice::give_way(std::string* why) {
  const auto other = [this] {
    const auto taker = keeper_.map()->taker;
    return taker && taker->client != self_.client ? taker : std::nullopt;
  };
  const auto first = other();
  if (!first) return {};
  log::info("{} is taking the volume over: waiting until it has, or is seen to have died", first->name);
  const auto until = Clock::now() + kTakerHasDied;
  while (other() == first && !has_ended(first->client) && Clock::now() < until) {
    std::this_thread::sleep_for(kAskEvery);
    TRY(load(why));
  }
  if (other() == first) return {};
  *why = fmt::format("{} has taken the volume over, or tried to: try again", first->name);
  return Error(EBUSY, "replicated set");
}

void TakeOverNotice::withdraw() {
  for (int left = kChanges; left > 0; --left) {
    if (!keeper_.load().ok()) return;
    const auto taker = keeper_.map()->taker;
    if (!taker || taker->client != self_.client) return;
    if (keeper_.announce([](SetMap& map) { map.taker.reset(); }).code() != EAGAIN) return;
  }
}

bool may_read_what_is_out(const SetMap& map, ClientId self) {
  if (!map.holder || map.holder->let_go || map.holder->client == self || has_ended(map.holder->client)) return false;
  return std::ranges::any_of(map.places, [&](const MapPlace& place) {
    return std::ranges::any_of(place.replicas, [&](const MapReplica& replica) {
      return replica.state != ReplicaState::kInSync && replica.since > map.holder->epoch;
    });
  });
}

}  // namespace brickfs
