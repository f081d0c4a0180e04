// SPDX-License-Identifier: Apache-2.0
// Which replicas a place has, by the map: those that are away are left out, bricks that have restarted are noted,
// those that somebody has added or taken away come and go.
#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "transport/base/log.h"
#include "transport/base/printable.h"
#include "transport/volume/absence_watch.h"
#include "transport/volume/mirror.h"

namespace brickfs {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kFirstRest{500};
constexpr milliseconds kLastRest{30'000};
constexpr milliseconds kSteady{60'000};  // one that lasts so long does not flap

}  // namespace

const MapReplica* Mirror::find(const SetMap& map, const MemberId& id) const {
  if (place_ >= map.places.size()) return nullptr;
  const auto& replicas = map.places[place_].replicas;
  const auto found = std::ranges::find_if(replicas, [&](const MapReplica& entry) { return entry.id == id; });
  return found == replicas.end() ? nullptr : &*found;
}

MapReplica* Mirror::find(SetMap& map, const MemberId& id) const {
  return const_cast<MapReplica*>(find(std::as_const(map), id));
}

// What the map says and kOthersMarked: without the roster.
void Mirror::raise(Replica& replica, ReplicaEvent event, uint64_t generation) {
  ReplicaStep now{};
  {
    MutexLock lock(mutex_);
    if (generation != 0 && generation < replica.changed_by) return;  // something newer has counted meanwhile
    const ReplicaPhase before = replica.phase.load();
    now = step(before, event);
    if (now == ReplicaStep{before}) return;
    replica.changed_by = std::max(replica.changed_by, generation);
    if (is_out(now.next) && !is_out(before)) left_out_at_ = std::max(left_out_at_, replica.changed_by);
    replica.phase = now.next;
    if (now.actions & kNoteWhatItMisses) {
      // Behind that: who saw it written has rows by now; what he has done is in a row or not committed.
      replica.missed.insert(activity_log_.active());
      replica.missed.insert(replica.client->uncommitted_blocks());
    }
    if (now.actions & kForgetWhatItHas) replica.missed_all = true;  // the map hears of it: forget_in_map()
    if (now.actions & kHasEverything) {
      replica.missed_all = false;
      replica.missed.clear();
      replica.noted = 0;
    }
    if (now.actions & kCutOff) note_left_out(replica);
    changed_.notify_all();
  }
  if (!(now.actions & kCutOff)) return;
  const SharedLock roster(roster_mutex_);
  if (is_written(replica) || replica.client == nullptr) return;  // it is another one by now
  replica.client->give_up_silent(milliseconds(1));               // of a brick that is silent nothing is waited for
  replica.client->interrupt();
}

// One that comes and goes comes back later each time.
void Mirror::note_left_out(Replica& replica) {
  const bool flaps = replica.out_at && Clock::now() - *replica.out_at < kSteady;
  replica.rest = flaps ? std::clamp(2 * replica.rest, kFirstRest, kLastRest) : milliseconds(0);
  replica.out_at = Clock::now();
  log::warn("{} is left out until it is back: the volume goes on without that copy", replica.name);
}

// Others have its part: it is of the map no more, or about to be.
bool Mirror::is_dismissed(const SetMap& map, const Replica& replica) const {
  if (place_ >= map.places.size()) return false;
  const MapReplica* const entry = find(map, replica.entry.id);
  return entry == nullptr || (entry->leaving && entry->state == ReplicaState::kStale);
}

// What the map says of them, once for each generation.
void Mirror::follow_map() {
  const auto map = keeper_->map();
  if (map->generation == followed_) return;
  followed_ = map->generation;
  Targets replicas;
  {
    const SharedLock roster(roster_mutex_);
    replicas = written();
  }
  for (Replica* replica : replicas) {
    const MapReplica* const entry = find(*map, replica->entry.id);
    if (is_dismissed(*map, *replica)) {
      raise(*replica, ReplicaEvent::kMapDismissed, map->generation);
    } else if (entry != nullptr && entry->state == ReplicaState::kStale) {
      raise(*replica, ReplicaEvent::kMapOut, map->generation);
    } else if (entry != nullptr && entry->state == ReplicaState::kInSync) {
      raise(*replica, ReplicaEvent::kMapInSync, map->generation);
    }
  }
}

// What has lost something may have lost more, however it was seen.
void Mirror::see_losses() {
  const SharedLock roster(roster_mutex_);
  for (Replica* replica : written()) {
    if (replica->client->final_error().code() == EIO) raise(*replica, ReplicaEvent::kLost);
  }
}

// One change of the map for all that are to be left out.
void Mirror::ask_map_to_leave_out() {
  Targets leaving;
  {
    const SharedLock roster(roster_mutex_);
    for (const auto& replica : replicas_) {
      if (is_to_be_left_out(replica->phase.load()) && has_another(*replica, true)) leaving.push_back(replica.get());
    }
  }
  if (leaving.empty()) return stop_waiting_for_map();  // they are back, or out
  const auto asked = keeper_->change([&](SetMap& map) {
    bool changed = false;
    for (const Replica* replica : leaving) changed |= leave_out_of(map, *replica, leaving);
    return changed;
  });
  if (asked.code() == ESTALE) return fail(asked.error());
  if (!asked.ok()) return wait_for_map(*leaving.front());
  stop_waiting_for_map();
  follow_map();
}

// The last one in sync stays.
bool Mirror::leave_out_of(SetMap& map, const Replica& replica, const Targets& leaving) const {
  MapReplica* const entry = find(map, replica.entry.id);
  if (entry == nullptr) return false;
  const bool is_failing = brickfs::is_failing(replica.phase.load());
  const bool forgets = is_failing && entry->missed != 0;
  if (entry->state == ReplicaState::kStale) {  // by a change whose answer was lost
    if (forgets) entry->missed = 0;
    return forgets;
  }
  const auto& all = map.places[place_].replicas;
  const bool is_last = entry->state == ReplicaState::kInSync && std::ranges::none_of(all, [&](const MapReplica& one) {
                         return one.id != entry->id && one.state == ReplicaState::kInSync;
                       });
  if (is_last && !take_back_another(map, leaving)) return false;
  set_state(*entry, ReplicaState::kStale, map.generation + 1);
  if (is_failing) entry->missed = 0;
  return true;
}

// One that is out in the map and not here, where everything was written to it, because the others could not be marked.
bool Mirror::take_back_another(SetMap& map, const Targets& leaving) const {
  const SharedLock roster(roster_mutex_);
  for (const auto& other : replicas_) {
    const ReplicaPhase phase = other->phase.load();
    if (std::ranges::find(leaving, other.get()) != leaving.end()) continue;
    if ((phase != ReplicaPhase::kOut && phase != ReplicaPhase::kDismissed) || other->client->is_away()) continue;
    MapReplica* const entry = find(map, other->entry.id);
    if (entry == nullptr || entry->state != ReplicaState::kStale) continue;
    set_state(*entry, ReplicaState::kInSync, 0);
    entry->boot = other->client->session().boot;
    return true;
  }
  return false;
}

void Mirror::wait_for_map(const Replica& replica) {
  const std::string why = keeper_->trouble();
  MutexLock lock(mutex_);
  if (!waits_for_map_) {
    log::warn("{} is away and cannot be left out of the map: {}; operations wait", replica.name, why);
  }
  const auto since = waits_for_map_ ? waits_for_map_->since : Clock::now();
  waits_for_map_ = WaitForMap{replica.name, why, since};
}

void Mirror::stop_waiting_for_map() {
  MutexLock lock(mutex_);
  waits_for_map_.reset();
}

// Nothing is acknowledged without what is out before the map from before would be refused, by the marks of the others.
// Before it is settled nothing is acknowledged at all, and make_equal() marks.
void Mirror::mark_and_leave_out() {
  Targets out;
  const bool settled = settled_.load();
  {
    const SharedLock roster(roster_mutex_);
    for (const auto& replica : replicas_) {
      const ReplicaPhase phase = replica->phase.load();
      if (is_out(phase) || (settled && phase == ReplicaPhase::kDismissed)) out.push_back(replica.get());
    }
  }
  if (out.empty()) return;
  // A change that nobody answered happens no more, and takes none of them back.
  const auto seen = keeper_->change([&](SetMap& map) {
    bool changed = false;
    for (const Replica* replica : out) {
      MapReplica* const entry = find(map, replica->entry.id);
      const bool forgets = entry != nullptr && entry->missed != 0 && is_failing(replica->phase.load());
      if (forgets) entry->missed = 0;
      changed |= forgets;
    }
    return changed;
  });
  if (seen.code() == ESTALE) return fail(seen.error());
  if (!seen.ok()) return;
  follow_map();
  if (settled && !mark_remaining()) return;
  see_losses();
  for (Replica* replica : out) raise(*replica, ReplicaEvent::kOthersMarked, *seen);
}

// Of what has lost something the map must not say that a bitmap has all that it misses. Until it does not, they
// go on.
void Mirror::forget_in_map() {
  Targets forgotten;
  {
    const SharedLock roster(roster_mutex_);
    MutexLock lock(mutex_);
    for (const auto& replica : replicas_) {
      if (replica->missed_all && replica->noted != 0) forgotten.push_back(replica.get());
    }
  }
  if (forgotten.empty()) return;
  const auto told = keeper_->change([&](SetMap& map) {
    bool changed = false;
    for (const Replica* replica : forgotten) {
      MapReplica* const entry = find(map, replica->entry.id);
      if (entry != nullptr) changed |= std::exchange(entry->missed, 0) != 0;
    }
    return changed;
  });
  if (told.code() == ESTALE) return fail(told.error());
  if (!told.ok()) return;
  MutexLock lock(mutex_);
  for (Replica* replica : forgotten) {
    if (replica->missed_all) replica->noted = 0;
  }
}

void Mirror::leave_out() {
  MutexLock one_at_a_time(leaving_out_);
  follow_map();
  see_losses();
  ask_map_to_leave_out();
  mark_and_leave_out();
  forget_in_map();
}

void Mirror::keep() {
  if (!writable_ || closing_.load()) return;
  leave_out();
  if (!settled_.load()) return;  // a new boot is a loss
  MutexLock one_at_a_time(leaving_out_);
  tell_restarts();
}

// A brick in another boot, and marks that the map does not know of.
void Mirror::tell_restarts() {
  for (const auto& [replica, client] : clients_of([](ReplicaPhase phase) { return phase == ReplicaPhase::kInSync; })) {
    if (client->is_away()) continue;
    const BootId boot = client->session().boot;
    const uint64_t marked = replica->marked.load();
    const auto map = keeper_->map();
    const MapReplica* const known = find(*map, replica->entry.id);
    const bool has_restarted = boot != boot_of(*replica);
    if (!has_restarted && (known == nullptr || marked <= known->marked)) continue;
    const auto told = change_entry(*replica, [&](MapReplica& entry) {
      if (entry.state != ReplicaState::kInSync) return false;
      entry.boot = boot;
      entry.marked = std::max(entry.marked, marked);
      return true;
    });
    if (!told.ok()) continue;
    {
      MutexLock lock(mutex_);
      replica->boot = boot;
    }
    if (has_restarted) mark_restarted(*replica, *client);
  }
}

// They last as long as nobody else leaves a replica out (bring_back()).
Mirror::Clients Mirror::clients_of(bool (*of)(ReplicaPhase)) const {
  Clients clients;
  const SharedLock roster(roster_mutex_);
  for (const auto& replica : replicas_) {
    if (of(replica->phase.load())) clients.emplace_back(replica.get(), replica->client.get());
  }
  return clients;
}

BootId Mirror::boot_of(const Replica& replica) const {
  MutexLock lock(mutex_);
  return replica.boot;
}

bool Mirror::tell_marks(SetMap& map) const {
  bool told = false;
  const SharedLock roster(roster_mutex_);
  for (const auto& replica : replicas_) {
    MapReplica* const entry = find(map, replica->entry.id);
    if (entry == nullptr || entry->state != ReplicaState::kInSync || !may_be_believed(*replica)) continue;
    told |= entry->marked < replica->marked.load();
    entry->marked = std::max(entry->marked, replica->marked.load());
  }
  return told;
}

// Neither written nor read any more; should it have to come back, it gets everything. The last one in sync stays.
void Mirror::let_go(Replica& replica) {
  const Gate::Closed closed(gate_);
  const ExclusiveLock roster(roster_mutex_);
  if (has_another(replica, false)) raise(replica, ReplicaEvent::kLetGo);
}

// Replicas that somebody has added, or taken away; or this client, by a change whose answer was lost.
void Mirror::adopt_map(const SetMap& map) {
  if (place_ >= map.places.size()) return;
  std::vector<MemberId> gone;
  for (const auto& replica : replicas_) {
    const bool is_there = std::ranges::any_of(map.places[place_].replicas,
                                              [&](const MapReplica& entry) { return entry.id == replica->entry.id; });
    if (replica->phase.load() == ReplicaPhase::kMayGo) let_go(*replica);
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
    replicas_.push_back(std::move(replica));
  }
}

// Its brick has another address. While it is written the connection that there is serves; then it comes back by that.
void Mirror::adopt_source(Replica& replica, const MapReplica& entry) {
  const Gate::Closed closed(gate_);
  const ExclusiveLock roster(roster_mutex_);
  MutexLock lock(mutex_);  // note_left_out()
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
  why.resize(cut_text(why, kTroubleBytes).size());
  if (replica.told_trouble == why) return;
  const auto told = change_entry(replica, [&](MapReplica& entry) {
    if (entry.state == ReplicaState::kInSync) return false;
    return std::exchange(entry.trouble, why) != why;
  });
  if (told.ok() || told.code() == ENOENT) replica.told_trouble = std::move(why);
}

bool Mirror::is_here(const MemberId& id, bool (*what)(const Replica&)) const {
  return std::ranges::any_of(replicas_, [&](const auto& replica) { return replica->entry.id == id && what(*replica); });
}

// As many as are wanted, in the map and here, so that those that leave may go.
bool Mirror::has_successors(const SetMap& map) const {
  if (place_ >= map.places.size()) return false;
  const auto lasting = std::ranges::count_if(map.places[place_].replicas, [&](const MapReplica& one) {
    return one.state == ReplicaState::kInSync && !one.leaving && is_here(one.id, has_everything);
  });
  return static_cast<uint64_t>(lasting) >= map.wanted;
}

// Replicas that leave, once others have their part. First they are in sync no more, as if they were left out: as long
// as they may be read here, a client that takes the volume over is to know of them (VolumeSet::Replicating). When they
// were let go here they go from the map, and then, with adopt_map(), from here.
bool Mirror::drop_leaving() {
  bool changed = false;
  const auto edit = [&](SetMap& map) {
    changed = false;
    if (!has_successors(map)) return false;
    auto& entries = map.places[place_].replicas;
    changed = std::erase_if(entries, [&](const MapReplica& one) {
                return one.leaving && one.state == ReplicaState::kStale && !is_here(one.id, is_written);
              }) > 0;
    for (MapReplica& one : entries) {
      if (!one.leaving || one.state == ReplicaState::kStale) continue;
      set_state(one, ReplicaState::kStale, map.generation + 1);
      changed = true;
    }
    return changed;
  };
  const auto seen = keeper_->map();
  const bool any_leaves =
      place_ < seen->places.size() && std::ranges::any_of(seen->places[place_].replicas, &MapReplica::leaving);
  if (!any_leaves) return false;
  SetMap tried = *seen;
  if (!edit(tried)) return false;
  const auto told = keeper_->change(edit);
  if (told.code() == ESTALE) fail(told.error());
  return told.ok() && changed;
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
  if (gone->client == nullptr || gone->client->is_away() || gone->phase.load() != ReplicaPhase::kGone) return;
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
  if (!writable_ || !settled_.load() || !failure().ok()) return false;
  const auto map = keeper_->map();
  const SharedLock roster(roster_mutex_);
  return std::ranges::any_of(replicas_, [&](const auto& one) {
    return (is_written(*one) || one->phase.load() == ReplicaPhase::kGone) && is_dismissed(*map, *one);
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
