// SPDX-License-Identifier: Apache-2.0
// How a replica comes back: fenced by being opened; the list of blocks made alike; written along from then on, with the
// rows that are there; what it misses copied, block by block, each while nobody writes to it; committed; in sync by a
// change of the map, which lets those go that leave. What it misses is known if this client left it out, or there is a
// dirty bitmap of it (mirror_missed.cc): blocks with a row then, what it had not committed, and what was written or
// allocated since. Else it is everything.
#include <fmt/core.h>

#include <algorithm>

#include "transport/base/log.h"
#include "transport/base/progress.h"
#include "transport/volume/mirror.h"
#include "transport/volume/set_membership.h"

namespace brickfs {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kFirstRetry{500};
constexpr milliseconds kLastRetry{10'000};
constexpr milliseconds kTellEvery{2'000};

}  // namespace

void Mirror::stop_repair() {
  no_repair_ = true;
  repair_stopped_.raise();
  MutexLock lock(mutex_);
  if (joining_ != nullptr) joining_->interrupt(false);
  changed_.notify_all();
}

// Null: it has come, or is gone. Until then its calls end when its brick is away (watch()), or repair is to end.
void Mirror::set_joining(VolumeClient* client) {
  MutexLock lock(mutex_);
  joining_ = client;
  joining_away_since_.reset();
  if (client != nullptr && (no_repair_.load() || closing_.load())) client->interrupt(false);
}

bool Mirror::repair() {
  if (!writable_ || no_repair_.load() || !settled_.load() || !failure().ok()) return false;
  adopt_map(*keeper_->map());
  if (drop_leaving()) return true;
  // What could not be noted is different, too, and would be so again at once.
  const auto noted = keep_bitmap();
  if (noted.ok() && (*noted || repair_diverged())) return true;
  Targets due;
  for (const auto& replica : replicas_) due.push_back(replica.get());
  std::stable_partition(due.begin(), due.end(), [](const Replica* replica) { return !replica->entry.leaving; });
  for (Replica* replica : due) {
    if (is_written(*replica) || Clock::now() < replica->retry_at) continue;
    if (replica->entry.leaving && has_successors(*keeper_->map())) continue;  // it goes when the map answers
    {
      MutexLock lock(mutex_);
      if (replica->out_at && Clock::now() < *replica->out_at + replica->rest) continue;
    }
    const Status status = bring_back(*replica);
    if (status.ok()) {
      replica->backoff = milliseconds(0);
      replica->said = false;
      replica->told_trouble.clear();
      return true;
    }
    if (!no_repair_.load()) tell_trouble(*replica, describe(status.error()));
    if (!replica->said && !no_repair_.load()) {
      log::warn("{} cannot be brought up to date: {}; this will be tried again", replica->name, status.error().what());
    }
    replica->said = true;
    replica->backoff = std::clamp(2 * replica->backoff, kFirstRetry, kLastRetry);
    replica->retry_at = Clock::now() + replica->backoff;
  }
  return false;
}

// What a write that was given up has left different.
bool Mirror::repair_diverged() {
  std::optional<BlockAddress> block;
  {
    MutexLock lock(mutex_);
    if (diverged_.empty() || !unnoted_.empty()) return false;
    block = diverged_.ranges().front().start;
  }
  const Gate::Pass pass(gate_);
  const ActivityLog::Claim held = activity_log_.hold({*block, 1});
  note_copied(*block);
  VolumeClient& source = first();
  for (Replica* replica : written()) {
    if (replica->client.get() == &source) continue;
    // It is copied as data, whatever it is: what it refers to is durable before.
    Status copied = replica->client->commit();
    if (copied.ok()) copied = copy_block(source, *replica->client, *block);
    if (!copied.ok() && copied.code() != ENOENT && is_written(*replica)) return false;
  }
  MutexLock lock(mutex_);
  diverged_.erase(BlockRange{*block, 1});
  activity_log_.let_go({*block, 1});
  return true;
}

// Before the next one begins.
void Mirror::end_former(Replica& replica) {
  if (replica.client == nullptr) return;
  std::unique_ptr<VolumeClient> former;
  {
    const Gate::Closed closed(gate_);
    const ExclusiveLock roster(roster_mutex_);
    former = std::move(replica.client);
  }
  MutexLock unused(leaving_out_);  // clients_of()
}

Status Mirror::bring_back(Replica& replica) {
  raise(replica, ReplicaEvent::kComes);
  end_former(replica);
  // To open it may take it from whoever has it, who may have the volume.
  const Status held = keeper_->refresh();
  if (held.code() == ESTALE) {
    fail(held);
    return held;
  }
  Holder holder;
  auto opened = open_replica_(replica.entry, held.ok(), &holder);
  if (!opened.ok()) return opened.error();
  std::unique_ptr<VolumeClient> client = std::move(*opened);
  set_joining(client.get());
  const Status status = bring_up(replica, client);
  set_joining(nullptr);
  if (client != nullptr) static_cast<void>(client->close());
  return status;
}

// Of one that has its mark: was it in sync when it was left out, and has it kept what it had?
bool Mirror::has_missed_all(const Replica& replica, const std::optional<ReplicaMark>& mark, const Session& session) {
  const auto map = keeper_->map();
  const MapReplica* const entry = find(*map, replica.entry.id);
  if (!mark || entry == nullptr) return true;
  // The map was another when it was marked last: this one is of a backup.
  if (mark->generation >= entry->since || mark->generation == kHasNothing) return true;
  if (mark->generation < replica.marked.load()) {
    log::warn("{}: its store is older than it was, of generation {}, and was at {}: everything is copied", replica.name,
              mark->generation, replica.marked.load());
    return true;
  }
  if (session.durability == Durability::kVolatile && session.boot != boot_of(replica)) return true;
  MutexLock lock(mutex_);
  return replica.missed_all;
}

// Blocks that it should have: so it is not what it was when it was left out.
Result<bool> Mirror::has_lost_blocks(const Replica& replica, VolumeClient& client) {
  const BlockSet lacking = BlockSet{TRY(first().list())}.without(BlockSet{TRY(client.list())});
  MutexLock lock(mutex_);
  return !replica.missed_all && !lacking.without(replica.missed).empty();
}

// ENOENT: there is none, or `edit` has not taken it.
Result<uint64_t> Mirror::change_entry(const Replica& replica, const std::function<bool(MapReplica&)>& edit) {
  bool changed = false;
  const auto told = keeper_->change([&](SetMap& map) {
    MapReplica* const entry = find(map, replica.entry.id);
    changed = entry != nullptr && edit(*entry);
    return changed;
  });
  if (told.code() == ESTALE) fail(told.error());
  if (told.ok() && !changed) return Error(ENOENT, "it was left out of the map meanwhile");
  return told;
}

// Takes the client when the replica is admitted.
Status Mirror::bring_up(Replica& replica, std::unique_ptr<VolumeClient>& client) {
  const Session session = client->session();
  if (session.durability != this->session().durability) return Error(EUCLEAN, "its brick is of another durability");
  const auto own = TRY(own_mark(*client, replica.entry, TRY(client->list())));
  bool all = has_missed_all(replica, own, session);
  if (!all && TRY(has_lost_blocks(replica, *client))) {
    const Gate::Closed closed(gate_);  // what is being allocated at this moment is not noted yet
    all = TRY(has_lost_blocks(replica, *client));
  }
  BlockSet to_copy;
  {
    MutexLock lock(mutex_);
    replica.missed_all = all;
  }
  const uint64_t generation = TRY(change_entry(replica, [all](MapReplica& entry) {
    set_state(entry, ReplicaState::kSyncing, entry.since);
    if (all) entry.missed = entry.marked = 0;
    return true;
  }));
  if (all) {
    replica.marked = 0;
    MutexLock lock(mutex_);
    replica.noted = 0;  // only now: until the map says so, the bitmap has to be complete
  }

  // Whoever goes on after a crash has to know what is in it. A first mark that is found is perhaps not durable.
  if (!own || own->generation == kHasNothing) TRY(begin_with_mark(*client, replica.entry));
  // Most of it before operations have to wait for the rest.
  TRY(make_alike(first(), *client, to_copy));
  if (all) to_copy = BlockSet{TRY(first().list())};
  VolumeClient& joined = *client;
  TRY(admit(replica, client, to_copy, generation));
  log::info("{} is back: {} of its blocks are brought up to date", replica.name, to_copy.count());

  const auto taken = bring_in_sync(replica, to_copy, session);
  if (!taken.ok()) {
    raise(replica, ReplicaEvent::kBroke);
    leave_out();
    return taken.error();
  }
  {
    MutexLock lock(mutex_);
    replica.boot = joined.session().boot;
  }
  raise(replica, ReplicaEvent::kTaken, *taken);
  if (replica.phase.load() != ReplicaPhase::kInSync) return Error(ENOTCONN, "it went away meanwhile");
  log::info("{} is in sync", replica.name);
  return {};
}

// Of one that is admitted, whose session began as `begun`: copied, committed, and then so in the map.
Result<uint64_t> Mirror::bring_in_sync(Replica& replica, const BlockSet& to_copy, const Session& begun) {
  VolumeClient& joined = *replica.client;
  TRY(copy_held(replica, to_copy, begun.boot));
  TRY(joined.commit());
  if (begun.suspect_blocks > 0) TRY(joined.commit_blocks(TRY(joined.list()), {}, {}));
  if (joined.session().boot != begun.boot) return Error(EIO, "its brick has restarted");
  // Also if no answer comes. By its mark it is in sync for whoever has lost the map, so if it goes, the others get a
  // newer one.
  raise(replica, ReplicaEvent::kTold);
  if (replica.phase.load() != ReplicaPhase::kJoining) return Error(ENOTCONN, "it went away meanwhile");
  TRY(mark(replica));
  return change_entry(replica, [&](MapReplica& entry) {
    if (entry.state != ReplicaState::kSyncing) return false;  // it was left out
    if (joined.session().boot != begun.boot) return false;    // copy_held()
    set_state(entry, ReplicaState::kInSync, 0);
    entry.boot = joined.session().boot;
    entry.marked = replica.marked.load();
    return true;
  });
}

// The first block, and in it what it is; nothing of the volume yet.
Status Mirror::begin_with_mark(VolumeClient& client, const MapReplica& entry) {
  if (!contains_block(TRY(client.list()), first_block())) TRY(client.alloc(first_block_of(place_)));
  TRY(write_mark(client, entry, kHasNothing));
  return client.commit_blocks(std::vector{first_block_of(place_)}, {}, {});
}

// Written along from now on. It is there what the source is but for `to_copy`.
Status Mirror::admit(Replica& replica, std::unique_ptr<VolumeClient>& client, BlockSet& to_copy, uint64_t generation) {
  const Gate::Closed closed(gate_);
  {
    MutexLock lock(mutex_);
    to_copy.insert(replica.missed);
  }
  TRY(make_alike(first(), *client, to_copy));
  to_copy.insert(first_block_of(place_));
  {
    MutexLock lock(mutex_);
    replica.missed.insert(to_copy);
  }
  TRY(write_bitmap(*client));
  TRY(write_activity_log(*client, activity_log_.rows()));
  if (place_ == 0) {
    TRY(copy_bytes(first(), *client, kCommitRecordAddress[0], 2 * kSetSlotBytes, Stage::kJournal));
  }
  TRY(admit_writers(*client));
  client->share_keys(*keys_, place_);
  const ExclusiveLock roster(roster_mutex_);
  replica.client = std::move(client);
  replica.away_since.reset();
  raise(replica, ReplicaEvent::kAdmitted, generation);
  return {};
}

// What took longer waited for something.
void Mirror::rest_from_copying(Clock::duration block_took) {
  constexpr Clock::duration kMostOfABlock = milliseconds(100);
  const auto until = Clock::now() + std::min(block_took, kMostOfABlock) * (2 * copying_->load() - 1);
  MutexLock lock(mutex_);
  while (!no_repair_.load() && !closing_.load() && Clock::now() < until) changed_.wait_until(lock, until);
}

// If its brick restarts meanwhile it begins anew. What it had from before and had not committed was not in this
// client's keeping; and an older store, put back while the brick was down, has the mark that this one has and lacks
// what was copied and committed since. Half of the time is the foreground's, if there is any; the other half is shared
// by the places that are copied.
Status Mirror::copy_held(Replica& replica, const BlockSet& blocks, const BootId& boot) {
  Status status;
  ++*copying_;
  const uint64_t total = blocks.count();
  uint64_t copied = 0;
  auto tell_at = Clock::now() + kTellEvery;
  const Progress progress = progress_in_log();
  const std::string what = "blocks of " + replica.name + " brought up to date";
  uint64_t operations = operations_.load();
  blocks.for_each(1, [&](BlockRange block) {
    const auto began = Clock::now();
    {
      const Gate::Pass pass(gate_);
      if (!is_written(replica) || no_repair_.load()) {
        status = Error(ECANCELED, "it went away meanwhile");
        return false;
      }
      if (replica.client->session().boot != boot) {
        status = Error(EIO, "its brick has restarted");
        return false;
      }
      const ActivityLog::Claim held = activity_log_.hold(block);
      status = copy_block(first(), *replica.client, block.start);
    }
    if (status.code() == ENOENT) status = Status();  // freed meanwhile, there too
    if (operations_.load() != operations) rest_from_copying(Clock::now() - began);
    operations = operations_.load();
    ++copied;
    progress(what, copied, total);
    if (status.ok() && Clock::now() >= tell_at) {
      tell_progress(replica, copied, total);
      tell_at = Clock::now() + kTellEvery;
    }
    return status.ok();
  });
  --*copying_;
  return status;
}

}  // namespace brickfs
