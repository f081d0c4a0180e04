// SPDX-License-Identifier: Apache-2.0
// Which replicas a place has, by the map: those that are away are taken out, bricks that have restarted are noted,
// those that somebody has added or taken away come and go.
#include <fmt/core.h>

#include <algorithm>

#include "transport/base/log.h"
#include "transport/volume/absence_watch.h"
#include "transport/volume/mirror.h"

namespace brickfs {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kFirstRest{500};
constexpr milliseconds kLastRest{30'000};
constexpr milliseconds kSteady{60'000};  // one that lasts so long does not flap

}  // namespace

MapReplica* Mirror::find(SetMap& map, const MemberId& id) const {
  if (place_ >= map.places.size()) return nullptr;
  auto& replicas = map.places[place_].replicas;
  const auto found = std::ranges::find_if(replicas, [&](const MapReplica& entry) { return entry.id == id; });
  return found == replicas.end() ? nullptr : &*found;
}

void Mirror::take_out(Replica& replica) {
  if (!is_written(replica)) return;
  replica.asked_out = true;
  // It has lost something, and may have lost more.
  const bool is_doubtful = replica.failing.load() || replica.client->final_error().code() == EIO;
  bool stays = false;
  const Status status = keeper_->change([&](SetMap& map) {
    MapReplica* const entry = find(map, replica.entry.id);
    if (entry == nullptr) return false;
    if (entry->state == ReplicaState::kStale) {  // by a change whose answer was lost
      const bool forgets = is_doubtful && entry->missed != 0;
      if (forgets) entry->missed = 0;
      return forgets;
    }
    const auto& all = map.places[place_].replicas;
    const bool is_last = entry->state == ReplicaState::kInSync && std::ranges::none_of(all, [&](const MapReplica& one) {
                           return one.id != entry->id && one.state == ReplicaState::kInSync;
                         });
    stays = is_last && !take_back_another(map, replica);
    if (stays) return false;
    set_state(*entry, ReplicaState::kStale, map.generation + 1);
    if (is_doubtful) entry->missed = 0;
    return true;
  });
  if (stays) return;
  if (status.code() == ESTALE) return fail(status);
  if (!status.ok()) {
    const std::string why = keeper_->trouble();
    MutexLock lock(mutex_);
    if (!waits_for_map_) {
      log::warn("{} is away and cannot be left out of the map: {}; operations wait", replica.name, why);
    }
    const auto since = waits_for_map_ ? waits_for_map_->since : Clock::now();
    waits_for_map_ = WaitForMap{replica.name, why, since};
    return;
  }
  stop_waiting_for_map();
  // Before it is settled nothing is acknowledged, and make_equal() marks. Who was not in sync was left out before.
  if (may_be_in_sync(replica) && is_settled_after_leaving() && !mark_remaining()) return;
  const SharedLock roster(roster_mutex_);
  if (!is_written(replica)) return;  // the other thread of this place was faster
  {
    MutexLock lock(mutex_);
    replica.state = ReplicaState::kStale;
    replica.perhaps_in_sync = false;
    // Behind that: who saw it in sync has rows by now; what he has done is in a row or not committed.
    replica.missed.insert(active_.active());
    replica.missed.insert(replica.client->uncommitted_blocks());
    if (is_doubtful) {
      replica.missed_all = true;
      replica.noted = 0;
    }
  }
  replica.client->give_up_silent(milliseconds(1));  // of a brick that is silent nothing is waited for
  replica.client->interrupt();
  replica.suspect = false;
  replica.failing = false;
  replica.wanted_out = false;
  replica.asked_out = false;
  MutexLock lock(mutex_);
  // One that comes and goes comes back later each time.
  const bool flaps = replica.out_at && Clock::now() - *replica.out_at < kSteady;
  replica.rest = flaps ? std::clamp(2 * replica.rest, kFirstRest, kLastRest) : milliseconds(0);
  replica.out_at = Clock::now();
  log::warn("{} is left out until it is back: the volume goes on without that copy", replica.name);
  changed_.notify_all();
}

// One that is out in the map and not here, where everything was written to it, because the others could not be marked.
bool Mirror::take_back_another(SetMap& map, const Replica& replica) const {
  const SharedLock roster(roster_mutex_);
  for (const auto& other : replicas_) {
    if (other.get() == &replica || other->state.load() != ReplicaState::kInSync || other->may_go.load()) continue;
    if (other->wanted_out.load() || other->suspect.load() || other->client->is_away()) continue;
    MapReplica* const entry = find(map, other->entry.id);
    if (entry == nullptr || entry->state != ReplicaState::kStale) continue;
    set_state(*entry, ReplicaState::kInSync, 0);
    entry->boot = other->client->session().boot;
    return true;
  }
  return false;
}

bool Mirror::is_settled_after_leaving() {
  MutexLock lock(mutex_);
  left_out_at_ = keeper_->map().generation;
  return settled_.load();
}

// By a change whose answer was lost, or that is not over yet: it may be there again.
bool Mirror::is_out_in_map(const Replica& replica) const {
  if (!replica.asked_out.load()) return false;
  SetMap map = keeper_->map();
  const MapReplica* const entry = find(map, replica.entry.id);
  return entry != nullptr && entry->state == ReplicaState::kStale;
}

void Mirror::stop_waiting_for_map() {
  MutexLock lock(mutex_);
  waits_for_map_.reset();
}

void Mirror::keep_map() {
  if (!writable_ || closing_.load()) return;
  Targets replicas;
  {
    const SharedLock roster(roster_mutex_);
    replicas = written();
  }
  bool any_leaves = false;
  for (Replica* replica : replicas) {
    const bool is_out = is_out_in_map(*replica);
    bool leaves = false;
    {
      const SharedLock roster(roster_mutex_);
      leaves = (is_out || replica->wanted_out.load()) && has_another(*replica, true);
    }
    if (leaves) take_out(*replica);
    any_leaves |= leaves;
  }
  if (!any_leaves) stop_waiting_for_map();  // it is back
  if (!settled_.load()) return;             // a new boot is a loss
  for (Replica* replica : replicas) {
    if (replica->state.load() != ReplicaState::kInSync || replica->client->is_away()) continue;
    const BootId boot = replica->client->session().boot;
    const uint64_t marked = replica->marked.load();
    const bool has_restarted = boot != replica->entry.boot;
    SetMap seen = keeper_->map();
    const MapReplica* const known = find(seen, replica->entry.id);
    if (!has_restarted && (known == nullptr || marked <= known->marked)) continue;
    const Status status = keeper_->change([&](SetMap& map) {
      MapReplica* const entry = find(map, replica->entry.id);
      if (entry == nullptr || entry->state != ReplicaState::kInSync) return false;
      entry->boot = boot;
      entry->marked = std::max(entry->marked, marked);
      return true;
    });
    if (status.code() == ESTALE) return fail(status);
    if (!status.ok()) continue;
    replica->entry.boot = boot;
    if (has_restarted) mark_restarted(*replica);
  }
  let_dismissed_go(replicas);
}

bool Mirror::tell_marks(SetMap& map) const {
  bool told = false;
  const SharedLock roster(roster_mutex_);
  for (const auto& replica : replicas_) {
    MapReplica* const entry = find(map, replica->entry.id);
    if (entry == nullptr || entry->state != ReplicaState::kInSync || !may_be_in_sync(*replica)) continue;
    told |= entry->marked < replica->marked.load();
    entry->marked = std::max(entry->marked, replica->marked.load());
  }
  return told;
}

// Others have its part: it is of the map no more, or about to be.
bool Mirror::is_dismissed(SetMap& map, const Replica& replica) const {
  if (place_ >= map.places.size()) return false;
  const MapReplica* const entry = find(map, replica.entry.id);
  return entry == nullptr || (entry->leaving && entry->state == ReplicaState::kStale);
}

// As one that is left out: nothing is acknowledged without it before the map from before would be refused. From then on
// it is not taken back for another one, nor was it by a change whose answer was lost.
void Mirror::let_dismissed_go(const Targets& replicas) {
  for (Replica* replica : replicas) {
    if (!is_written(*replica) || replica->may_go.load()) continue;
    SetMap seen = keeper_->map();
    if (!is_dismissed(seen, *replica)) continue;
    bool dismissed = false;
    const Status status = keeper_->change([&](SetMap& map) {
      dismissed = is_dismissed(map, *replica);
      return false;
    });
    if (status.code() == ESTALE) return fail(status);
    if (status.ok() && dismissed && mark_remaining()) replica->may_go = true;
  }
}

// Neither written nor read any more; should it have to come back, it gets everything. The last one in sync stays.
void Mirror::let_go(Replica& replica) {
  const Gate::Closed closed(gate_);
  const ExclusiveLock roster(roster_mutex_);
  if (!is_written(replica) || !has_another(replica, false)) return;
  MutexLock lock(mutex_);
  replica.state = ReplicaState::kStale;
  replica.perhaps_in_sync = false;
  replica.missed_all = true;
  replica.may_go = false;
  replica.has_gone = true;
  changed_.notify_all();
}

// Replicas that somebody has added, or taken away; or this client, by a change whose answer was lost.
void Mirror::adopt_map(const SetMap& map) {
  if (place_ >= map.places.size()) return;
  std::vector<MemberId> gone;
  for (const auto& replica : replicas_) {
    const bool is_there = std::ranges::any_of(map.places[place_].replicas,
                                              [&](const MapReplica& entry) { return entry.id == replica->entry.id; });
    if (is_written(*replica) && replica->may_go.load()) let_go(*replica);
    if (!is_there && !is_written(*replica)) gone.push_back(replica->entry.id);
  }
  for (const MemberId& id : gone) drop(id);
  for (const MapReplica& entry : map.places[place_].replicas) {
    const auto known = std::ranges::find_if(replicas_, [&](const auto& one) { return one->entry.id == entry.id; });
    if (known != replicas_.end()) {
      (*known)->entry.leaving = entry.leaving;
      if ((*known)->entry.source != entry.source && !is_written(**known)) adopt_source(**known, entry);
      continue;
    }
    auto replica = std::make_unique<Replica>();
    replica->entry = entry;
    replica->name = entry.source;
    const Gate::Closed closed(gate_);
    const ExclusiveLock roster(roster_mutex_);
    replica->slot = slots_++;
    replicas_.push_back(std::move(replica));
    const ExclusiveLock keys(keys_mutex_);
    for (Memory& memory : memories_) {
      if (memory.in_use) memory.registrations.resize(slots_);
    }
  }
}

// Its brick has another address. While it is written the connection that there is serves; then it comes back by that.
void Mirror::adopt_source(Replica& replica, const MapReplica& entry) {
  const Gate::Closed closed(gate_);
  const ExclusiveLock roster(roster_mutex_);
  log::info("{} is at {} now", replica.name, entry.source);
  replica.entry.source = replica.name = entry.source;
  replica.entry.domain = entry.domain;
  replica.retry_at = {};
}

// If the map cannot be told, the copy goes on.
void Mirror::tell_progress(const Replica& replica, uint64_t copied, uint64_t total) {
  static_cast<void>(keeper_->change([&](SetMap& map) {
    MapReplica* const entry = find(map, replica.entry.id);
    if (entry == nullptr || entry->state != ReplicaState::kSyncing) return false;
    entry->copied_blocks = copied;
    entry->total_blocks = total;
    return true;
  }));
}

// Once for each reason, so that who looks at the map knows it.
void Mirror::tell_trouble(Replica& replica, std::string why) {
  why.resize(std::min(why.size(), kTroubleBytes));
  if (replica.told_trouble == why) return;
  const Status told = change_entry(replica, [&](MapReplica& entry) {
    if (entry.state == ReplicaState::kInSync) return false;
    return std::exchange(entry.trouble, why) != why;
  });
  if (told.ok() || told.code() == ENOENT) replica.told_trouble = std::move(why);
}

bool Mirror::is_here(const MemberId& id, const std::function<bool(const Replica&)>& what) const {
  return std::ranges::any_of(replicas_, [&](const auto& replica) { return replica->entry.id == id && what(*replica); });
}

// As many as are wanted, in the map and here, so that those that leave may go.
bool Mirror::has_successors(const SetMap& map) const {
  if (place_ >= map.places.size()) return false;
  const auto is_in_sync = [](const Replica& replica) { return replica.state.load() == ReplicaState::kInSync; };
  const auto lasting = std::ranges::count_if(map.places[place_].replicas, [&](const MapReplica& one) {
    return one.state == ReplicaState::kInSync && !one.leaving && is_here(one.id, is_in_sync);
  });
  return static_cast<uint64_t>(lasting) >= map.wanted;
}

// Replicas that leave, once others have their part. First they are in sync no more, as if they were left out: as long
// as they may be read here, a client that takes the volume over is to know of them (VolumeSet::Replicating). When they
// were let go here they go from the map, and then, with adopt_map(), from here.
bool Mirror::drop_leaving() {
  const auto is_written_here = [this](const MapReplica& one) {
    return is_here(one.id, [this](const Replica& replica) { return is_written(replica); });
  };
  bool changed = false;
  const auto edit = [&](SetMap& map) {
    changed = false;
    if (!has_successors(map)) return false;
    auto& entries = map.places[place_].replicas;
    changed = std::erase_if(entries, [&](const MapReplica& one) {
                return one.leaving && one.state == ReplicaState::kStale && !is_written_here(one);
              }) > 0;
    for (MapReplica& one : entries) {
      if (!one.leaving || one.state == ReplicaState::kStale) continue;
      set_state(one, ReplicaState::kStale, map.generation + 1);
      changed = true;
    }
    return changed;
  };
  SetMap seen = keeper_->map();
  if (!edit(seen)) return false;
  const Status status = keeper_->change(edit);
  if (status.code() == ESTALE) fail(status);
  return status.ok() && changed;
}

// What another has taken the place of: its blocks are given back.
void Mirror::drop(const MemberId& id) {
  const auto found = std::ranges::find_if(replicas_, [&](const auto& one) { return one->entry.id == id; });
  if (found == replicas_.end()) return;
  Replica* const gone = found->get();
  {
    const Gate::Closed closed(gate_);
    const ExclusiveLock roster(roster_mutex_);
    dropped_.push_back(std::move(*found));
    replicas_.erase(found);
  }
  log::info("{} is not of the set any more", gone->name);
  if (gone->client == nullptr || gone->client->is_away() || !gone->has_gone.load()) return;
  {
    MutexLock lock(mutex_);
    if (closing_.load()) return;
    leaving_ = gone->client.get();
  }
  {
    AbsenceWatch watch;
    watch.add(*gone->client, gone->name);
    give_all_back(*gone);
  }
  MutexLock lock(mutex_);
  leaving_ = nullptr;
}

bool Mirror::is_moving() const {
  if (!writable_ || !is_replicated() || !settled_.load() || !failure().ok()) return false;
  SetMap map = keeper_->map();
  const SharedLock roster(roster_mutex_);
  return std::ranges::any_of(replicas_, [&](const auto& one) {
    return (is_written(*one) || one->has_gone.load()) && is_dismissed(map, *one);
  });
}

void Mirror::give_all_back(const Replica& replica) {
  VolumeClient& client = *replica.client;
  const Status freed = client.free_all();
  if (!freed.ok()) log::warn("{} has not given all its blocks back: {}", replica.name, freed.error().what());
  // Not commit(), which for place 0 writes into its first block.
  static_cast<void>(client.commit_blocks({}, {}, {}));
  static_cast<void>(client.close());
}

}  // namespace brickfs
