// SPDX-License-Identifier: Apache-2.0
// What a place is, and how its replicas are; mirror_calls.cc has the calls of its set, mirror_repair.cc keeps its
// replicas equal.
#include "transport/volume/mirror.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "transport/base/check.h"
#include "transport/base/log.h"

namespace brickfs {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kOutAfter{1'000};
constexpr milliseconds kGoneAfter{2'000};

}  // namespace

Mirror::Mirror(size_t place, MapKeeper& keeper, LocalKeys& keys, std::atomic<uint64_t>& copying,
               OpenReplica open_replica, std::vector<Member> members, std::optional<milliseconds> soft, bool writable)
    : place_(place),
      keeper_(&keeper),
      keys_(&keys),
      copying_(&copying),
      open_replica_(std::move(open_replica)),
      soft_(soft),
      writable_(writable),
      activity_log_(
          [this](std::span<const ActivityLog::Row> rows, const Interruption* by) { return write_rows(rows, by); }) {
  for (Member& member : members) {
    auto replica = std::make_unique<Replica>();
    replica->entry = std::move(member.entry);
    replica->name = replica->entry.source;
    replica->boot = replica->entry.boot;
    if (member.client != nullptr) replica->phase = ReplicaPhase::kInSync;
    if (member.client == nullptr && replica->entry.state == ReplicaState::kInSync) partial_ = true;
    replica->missed_all = !member.has_all;
    replica->marked = replica->entry.marked;
    replica->client = std::move(member.client);
    if (replica->client != nullptr) replica->client->share_keys(keys, place);
    replicas_.push_back(std::move(replica));
  }
  watch();
}

Mirror::~Mirror() {
  abandon();
  {
    // Their threads may be asking each other for what they are to get again (CopiedBytes), and do so no more.
    std::vector<std::unique_ptr<Replica>> replicas;
    const ExclusiveLock roster(roster_mutex_);
    replicas.swap(replicas_);
  }
  buffers_->unregister();
}

VolumeClient& Mirror::first() const {
  Replica* const replica = first_in_sync(false);
  CHECK(replica != nullptr);
  return *replica->client;
}

Mirror::Targets Mirror::written() const {
  Targets targets;
  for (const auto& replica : replicas_) {
    if (is_written(*replica)) targets.push_back(replica.get());
  }
  return targets;
}

// The last one in sync stays, so there is one.
Mirror::Replica* Mirror::first_in_sync(bool connected) const {
  for (const auto& replica : replicas_) {
    if (!has_everything(*replica)) continue;
    if (!connected || (!replica->client->is_away() && !is_doubted(replica->phase.load()))) return replica.get();
  }
  return nullptr;
}

// If none is connected: one that may come back.
Mirror::Replica* Mirror::to_read() const {
  if (!settled_.load()) return first_in_sync(false);
  if (Replica* const connected = first_in_sync(true)) return connected;
  for (const auto& replica : replicas_) {
    if (has_everything(*replica) && replica->client->final_error().ok()) return replica.get();
  }
  return first_in_sync(false);
}

bool Mirror::has_another(const Replica& replica, bool is_there) const {
  const bool has_all = has_everything(replica);
  if (is_there && !has_all) return true;
  if (!settled_.load() && &replica == first_in_sync(false)) return false;
  return std::ranges::any_of(replicas_, [&](const auto& other) {
    const ReplicaPhase phase = other->phase.load();
    const bool may_be_in_sync = !is_there && phase == ReplicaPhase::kJoining;  // what it is is known soon
    if (other.get() == &replica || (!has_everything(*other) && !may_be_in_sync)) return false;
    if (!other->client->final_error().ok()) return false;
    // Two that are doubted would wait for each other; but one that serves no more, or never was one of the others',
    // waits for one that does.
    if (!is_there) return !is_doubted(phase) || !has_all || !replica.client->final_error().ok();
    return !is_to_be_left_out(phase) && !is_doubted(phase) && !other->client->is_away();
  });
}

void Mirror::fail(const Status& status) {
  {
    MutexLock lock(mutex_);
    if (!failed_.ok()) return;
    failed_ = status;
    confirmation_.end();
    changed_.notify_all();
  }
  log::error("another client has the volume; nothing works here any more: unmount, and mount anew");
  const SharedLock roster(roster_mutex_);
  for (Replica* replica : written()) replica->client->interrupt();
}

Status Mirror::failure() const {
  MutexLock lock(mutex_);
  return failed_;
}

std::vector<std::pair<std::string, VolumeClient*>> Mirror::copies() const {
  std::vector<std::pair<std::string, VolumeClient*>> copies;
  const SharedLock roster(roster_mutex_);
  for (const Replica* replica : written()) {
    if (has_everything(*replica)) copies.emplace_back(replica->name, replica->client.get());
  }
  return copies;
}

// --- what is said of it

Session Mirror::session() const {
  const SharedLock roster(roster_mutex_);
  std::optional<Session> least;
  for (const Replica* replica : written()) {
    if (!has_everything(*replica)) continue;
    const Session session = replica->client->session();
    if (!least) {
      least = session;
      continue;
    }
    least->capacity_blocks = std::min(least->capacity_blocks, session.capacity_blocks);
    least->memory_blocks = std::min(least->memory_blocks, session.memory_blocks);
    least->suspect_blocks = std::max(least->suspect_blocks, session.suspect_blocks);
    least->lease = std::min(least->lease, session.lease);
    if (session.durability == Durability::kVolatile) least->durability = Durability::kVolatile;
  }
  CHECK(least.has_value());
  return *least;
}

// Nothing: it waits for nobody, or for the map no longer than is worth a word.
std::optional<LinkState> Mirror::waiting_for_map() const {
  constexpr milliseconds kWorthAWord{2'000};
  MutexLock lock(mutex_);
  if (!waits_for_map_) return std::nullopt;
  const auto waits_for = Clock::now() - waits_for_map_->since;
  if (waits_for < kWorthAWord) return std::nullopt;
  return LinkState{.kind = LinkState::Kind::kWaiting,
                   .error = Error(EHOSTUNREACH, "the map cannot be changed"),
                   .text = fmt::format("{} for {:.0f} s, to leave {} out, which is away; operations wait: {}",
                                       kWaitsForEtcd, std::chrono::duration<double>(waits_for).count(),
                                       waits_for_map_->replica, waits_for_map_->why)};
}

// As good as that of the best: the others are left out, or are waited for so long only.
LinkState Mirror::link_state() const {
  {
    MutexLock lock(mutex_);
    if (!failed_.ok()) {
      return {.kind = LinkState::Kind::kFailed, .error = failed_.error(), .text = "another client has the volume"};
    }
  }
  if (auto waits = waiting_for_map()) return *std::move(waits);
  const SharedLock roster(roster_mutex_);
  std::optional<LinkState> best;
  for (const Replica* replica : written()) {
    if (!has_everything(*replica)) continue;
    LinkState state = replica->client->link_state();
    if (state.kind == LinkState::Kind::kConnected) return state;
    if (!best) best = std::move(state);
  }
  CHECK(best.has_value());
  return *best;
}

std::vector<MemberId> Mirror::absent() const {
  std::vector<MemberId> ids;
  const SharedLock roster(roster_mutex_);
  for (const auto& replica : replicas_) {
    const ReplicaPhase phase = replica->phase.load();
    const bool is_there = is_written(*replica) && replica->client->final_error().ok() && !replica->client->is_away() &&
                          !is_doubted(phase) && !is_to_be_left_out(phase);
    if (!is_there) ids.push_back(replica->entry.id);
  }
  return ids;
}

// Only while all that the map may call in sync are there, and equal. What a replica has of bytes that nobody writes
// stays right also when it is left out later, and what is written then is told to those who read it before
// (docs/shared.md).
std::vector<ReadableBrick> Mirror::readable() {
  if (!settled_.load()) return {};
  {
    MutexLock lock(mutex_);
    if (!failed_.ok() || partial_ || !diverged_.empty()) return {};
  }
  const SharedLock roster(roster_mutex_);
  std::vector<ReadableBrick> bricks;
  for (const auto& replica : replicas_) {
    const ReplicaPhase phase = replica->phase.load();
    if (!brickfs::may_be_believed(phase)) continue;
    if (phase != ReplicaPhase::kInSync || !replica->client->make_visible().ok()) return {};
    const Session session = replica->client->session();
    bricks.push_back({replica->entry.source, session.boot, session.epoch});
  }
  return bricks;
}

bool Mirror::is_away() const {
  const SharedLock roster(roster_mutex_);
  return std::ranges::any_of(
      written(), [](const Replica* replica) { return may_be_believed(*replica) && replica->client->is_away(); });
}

Status Mirror::final_error() const {
  {
    MutexLock lock(mutex_);
    TRY(failed_);
  }
  const SharedLock roster(roster_mutex_);
  Status status;
  for (const Replica* replica : written()) {
    if (!has_everything(*replica)) continue;
    status = replica->client->final_error();
    if (status.ok()) return {};
  }
  return status;
}

LatencyCounts Mirror::counts(VolumeCall call) const {
  const SharedLock roster(roster_mutex_);
  LatencyCounts all;
  for (const auto& replica : replicas_) {
    if (replica->client != nullptr) all += replica->client->counters().counts(call);
  }
  return all;
}

// --- all of it

void Mirror::give_up_silent(milliseconds silence) {
  const SharedLock roster(roster_mutex_);
  for (const auto& replica : replicas_) {
    if (is_written(*replica)) replica->client->give_up_silent(silence);
  }
}

void Mirror::give_up_outage() {
  const SharedLock roster(roster_mutex_);
  for (const auto& replica : replicas_) {
    if (is_written(*replica)) replica->client->give_up_outage();
  }
}

void Mirror::interrupt() {
  closing_ = true;
  const SharedLock roster(roster_mutex_);
  for (const auto& replica : replicas_) {
    if (replica->client != nullptr) replica->client->interrupt();
  }
  MutexLock lock(mutex_);
  if (joining_ != nullptr) joining_->interrupt(false);
  if (leaving_ != nullptr) leaving_->interrupt(false);
  changed_.notify_all();
}

void Mirror::expect_no_restart() {
  const SharedLock roster(roster_mutex_);
  for (Replica* replica : written()) replica->client->expect_no_restart();
}

void Mirror::abandon() {
  closing_ = true;
  const SharedLock roster(roster_mutex_);
  for (const auto& replica : replicas_) {
    if (replica->client != nullptr) replica->client->abandon();
  }
  MutexLock lock(mutex_);
  changed_.notify_all();
}

bool Mirror::can_let_go() const {
  if (!settled_.load() || activity_log_.lends()) return false;
  const SharedLock roster(roster_mutex_);
  for (const Replica* replica : written()) {
    if (!may_be_believed(*replica)) continue;
    if (!replica->client->final_error().ok() || replica->client->is_away()) return false;
    if (is_doubted(replica->phase.load())) return false;
    if (replica->client->session().durability == Durability::kDurable && !replica->client->is_clean()) return false;
  }
  MutexLock lock(mutex_);
  return failed_.ok() && diverged_.empty();
}

Status Mirror::close() {
  closing_ = true;
  Status result;
  for (const auto& replica : replicas_) {
    if (replica->client == nullptr) continue;
    const Status closed = replica->client->close();
    if (!closed.ok() && may_be_believed(*replica)) result = closed;
  }
  return result;
}

// --- how replicas are

// Until it is settled all is read from the first one, which is not left out: with another there the mount is given up
// (EIO) rather than that it waits.
void Mirror::give_up_first(Clock::time_point now) {
  if (!writable_ || settled_.load() || stays_unsettled_.load()) return;
  const SharedLock roster(roster_mutex_);
  Replica* const first = first_in_sync(false);
  if (first == nullptr || !first->away_since || now - *first->away_since < kGoneAfter) return;
  if (first_in_sync(true) == nullptr) return;
  if (!std::exchange(first->said, true)) log::error("{} went away while it was read: mount again", first->name);
  first->client->give_up_silent(milliseconds(1));
  first->client->give_up_outage();
}

// What its brick is like now, as an event.
void Mirror::watch(Replica& replica, LinkState::Kind link, Clock::time_point now) {
  if (link == LinkState::Kind::kConnected) {
    replica.away_since.reset();
    return raise(replica, writable_ ? ReplicaEvent::kAnswers : ReplicaEvent::kForgiven);
  }
  if (!replica.away_since) replica.away_since = now;
  if (!writable_) return;
  const bool is_silent = now - *replica.away_since >= kOutAfter;
  if (is_silent && marks_.load()) replica.client->give_up_silent(milliseconds(1));  // a mark may wait for it
  const bool is_lost = link == LinkState::Kind::kFailed;
  if (is_lost || is_silent) {
    raise(replica,
          is_lost && replica.client->final_error().code() == EIO ? ReplicaEvent::kLost : ReplicaEvent::kSilent);
  }
}

void Mirror::watch() {
  const auto now = Clock::now();
  bool all_heard = true;
  auto known_at = now;  // of the replica in sync of which that was longest ago
  Status taken;
  // Bricks of which nobody wants anything are left in peace: what keeps the lease is heard often enough.
  const Asking asking = gate_.is_empty() ? Asking::kNo : Asking::kYes;
  {
    const SharedLock roster(roster_mutex_);
    const Targets replicas = written();
    for (Replica* replica : replicas) {
      const LinkState::Kind link = replica->client->link_state(asking).kind;
      if (may_be_believed(*replica)) {
        if (link == LinkState::Kind::kConnected) known_at = std::min(known_at, replica->client->known_at());
        all_heard &= link == LinkState::Kind::kConnected;
      }
      if (link == LinkState::Kind::kFailed && replica->client->final_error().code() == ESTALE) {
        taken = replica->client->final_error();
      }
      watch(*replica, link, now);
    }
  }
  if (!taken.ok()) return fail(taken);
  give_up_first(now);
  watch_joining(now);
  MutexLock lock(mutex_);
  if (!all_heard || partial_ || !failed_.ok()) return;
  confirmation_.all_heard(now, known_at);
  changed_.notify_all();
}

// What is brought back is not watched with the others yet.
void Mirror::watch_joining(Clock::time_point now) {
  MutexLock lock(mutex_);
  if (joining_ == nullptr) return;
  if (joining_->link_state().kind == LinkState::Kind::kConnected) {
    joining_away_since_.reset();
  } else if (!joining_away_since_) {
    joining_away_since_ = now;
  } else if (now - *joining_away_since_ >= kOutAfter) {
    joining_->interrupt(false);
  }
}

void Mirror::confirm(Clock::time_point asked) {
  MutexLock lock(mutex_);
  if (!failed_.ok()) return;
  confirmation_.map_unchanged(asked);
  changed_.notify_all();
}

}  // namespace brickfs
