// SPDX-License-Identifier: Apache-2.0
#include "transport/membership/claim.h"

#include <fmt/core.h>

#include <algorithm>
#include <thread>
#include <utility>
#include <vector>

#include "transport/base/log.h"
#include "transport/brick/limits.h"
#include "transport/membership/confirmation.h"

namespace brickfs {
namespace {

using Clock = std::chrono::steady_clock;

void leave_out(FoundReplica& replica) {
  replica.session.reset();
  replica.left_out = true;
}

Status cannot_claim(std::string* why, int code, std::string text) {
  *why = std::move(text);
  return Error(code, "replicated set");
}

}  // namespace

Status Claim::choose(FoundReplicas replicas, std::string* why) {
  TRY(leave_out_older(replicas, why));
  std::vector<FoundReplica*> there;
  std::string absent;
  bool all_lost = true;
  for (FoundReplica* replica : replicas) {
    if (replica->entry.state != ReplicaState::kInSync) continue;
    if (replica->session) there.push_back(replica);
    if (!replica->session) absent += (absent.empty() ? "" : ", ") + replica->entry.source;
    all_lost &= replica->lost;
  }
  const size_t place = replicas.front()->place;
  if (all_lost) {
    return cannot_claim(why, ENODATA,
                        fmt::format("all copies of place {} are lost: {} have nothing any more", place, absent));
  }
  if (there.empty()) {
    return cannot_claim(why, EHOSTUNREACH,
                        fmt::format("no copy of place {} that is in sync is there: {}", place, absent));
  }
  for (const FoundReplica* replica : there) {
    if (replica->session->durability == there.front()->session->durability) continue;
    return cannot_claim(
        why, EUCLEAN,
        fmt::format("{} and {} are of different durability", there.front()->entry.source, replica->entry.source));
  }
  return leave_out_restarted(there, why);
}

// With none that is as it was: the newest one stays, if that is accepted. Of several of one mark nobody knows whether
// they are equal.
Status Claim::leave_out_older(FoundReplicas replicas, std::string* why) {
  FoundReplica* stays = nullptr;
  std::string names;
  std::string absent;
  for (FoundReplica* replica : replicas) {
    if (replica->entry.state != ReplicaState::kInSync) continue;
    if (!replica->session) absent += "; not there: " + replica->entry.source;
    if (!replica->session) continue;
    if (replica->older) names += (names.empty() ? "" : ", ") + replica->entry.source;
    const bool is_better = stays == nullptr || (stays->older && (!replica->older || replica->mark > stays->mark));
    if (is_better) stays = replica;
  }
  if (names.empty()) return {};
  const size_t place = stays->place;
  if (stays->older && !accept_older_) {
    return cannot_claim(
        why, EUCLEAN,
        fmt::format("no copy of place {} is as it was: {} is of an older store, of generation {} of the map, "
                    "and was at {}{}; to lose what was written since: accept_older",
                    place, names, stays->mark, stays->entry.marked, absent));
  }
  for (FoundReplica* replica : replicas) {
    if (!replica->session || !replica->older || replica == stays) continue;
    replica->lost = true;
    log::warn("{} is of an older store, of generation {} of the map, and was at {}: it is copied from the others",
              replica->entry.source, replica->mark, replica->entry.marked);
    leave_out(*replica);
  }
  if (!stays->older) return {};
  log::warn("place {} is as it was at generation {} of the map: what was written since is lost", place, stays->mark);
  stays->entry.marked = stays->mark;
  return {};
}

// If all have, the first one stays.
Status Claim::leave_out_restarted(FoundReplicas there, std::string* why) {
  const size_t place = there.front()->place;
  const Durability durability = there.front()->session->durability;
  std::vector<FoundReplica*> restarted;
  for (FoundReplica* replica : there) {
    const bool same_boot = replica->entry.boot == BootId{} || replica->entry.boot == replica->session->boot;
    const bool had_something = map_.places[place].made;
    if (same_boot || !had_something || (durability == Durability::kDurable && !unclean_)) continue;
    restarted.push_back(replica);
  }
  if (restarted.size() == there.size()) {
    if (durability == Durability::kVolatile) {
      return cannot_claim(
          why, ENODATA,
          fmt::format("all copies of place {} are lost: their bricks are volatile, and have restarted", place));
    }
    log::warn("the bricks of place {} have restarted without their client: it is as it was committed last", place);
    lost_tail_ = restarted.front()->lost_tail = true;
    restarted.erase(restarted.begin());
  }
  for (FoundReplica* replica : restarted) leave_out(*replica);
  return {};
}

Status Claim::make(MapKeeper& keeper, TakeOverNotice& notice, const MapHolder& self, FoundReplicas all,
                   Clock::time_point fenced_at) {
  std::vector<std::string> names;
  bool waits =
      map_.lease_wait || (unclean_ && may_read_what_is_out(map_, self.client));  // whoever was to wait has died
  const Status claimed = keeper.claim(self, [&](SetMap& map) {
    // The boots become those that are believed: whoever comes after a crash of this client would not know it from them.
    // A brick that has restarted since is not what was believed (Mirror::settle()).
    map.tail_lost = lost_tail_;
    map.taker.reset();
    for (FoundReplica* replica : all) {
      for (MapReplica& entry : map.places[replica->place].replicas) {
        if (entry.id != replica->entry.id) continue;
        if (entry.state == ReplicaState::kInSync && replica->left_out) {
          set_state(entry, ReplicaState::kStale, map.generation + 1);
          names.push_back(entry.source);
          replica->has_all = !unclean_ && !replica->lost;
        }
        if (!replica->noted) entry.missed = 0;
        if (replica->left_out) set_state(entry, ReplicaState::kStale, entry.since);
        if (replica->session) entry.boot = replica->session->boot;
        entry.marked = replica->entry.marked;
        replica->entry = entry;
      }
    }
    // Also after one that let go: readers.
    if (!names.empty() && map_.holder && map_.holder->client != self.client) waits = true;
    map.lease_wait = waits;
  });
  const auto claimed_at = Clock::now();  // until then readers may have been going by the map from before
  TRY(claimed);
  notice.claimed();
  for (const std::string& name : names)
    log::warn("{} is left out until it is back: the volume goes on without that copy", name);
  if (!waits) return {};
  log::info("waiting until no former client can be reading from what was left out");
  std::this_thread::sleep_until(std::max(fenced_at + limits::kLease, claimed_at + Confirmation::kLasts));
  const auto waited = keeper.change([](SetMap& map) { return std::exchange(map.lease_wait, false); });
  return waited.ok() ? Status() : waited.error();
}

void let_go(MapKeeper& keeper, const std::function<bool()>& mark, const std::function<void(SetMap&)>& edit) {
  auto status = keeper.change([](SetMap&) { return true; });
  if (status.ok() && !mark()) return;
  if (status.ok()) {
    status = keeper.change([&](SetMap& map) {
      map.holder->let_go = true;
      edit(map);
      return true;
    });
  }
  if (status.ok() || status.code() == ESTALE) return;
  log::warn("the map could not be told that the volume is let go: {}; the next mount compares more", keeper.trouble());
}

}  // namespace brickfs
