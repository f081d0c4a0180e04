// SPDX-License-Identifier: Apache-2.0
// What a place does with the calls of its set; mirror_repair.cc keeps its replicas equal.
#include "transport/volume/mirror.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "transport/base/check.h"
#include "transport/base/log.h"
#include "transport/base/thread.h"

namespace brickfs {
namespace {

using std::chrono::milliseconds;

// A lease lasts limits::kLease from when the brick has heard of us. What counts as heard now may be older by a keep
// alive and what it takes to miss an answer.
constexpr milliseconds kConfirmedFor = limits::kLease / 2;
static_assert(kConfirmedFor + limits::kKeepAlive + milliseconds(1'500) < limits::kLease);
constexpr milliseconds kLook{50};

// Of the store of one brick, or of what it answers: others may do better.
bool is_own_trouble(const Status& status) { return !status.ok() && status.code() != EINTR && status.code() != ESTALE; }

// The brick's answer, and not a failure of it.
bool is_refusal(const Status& status) {
  return status.code() == ENOSPC || status.code() == EDQUOT || status.code() == EEXIST || status.code() == EINVAL;
}

bool is_single_answer(const std::vector<Status>& statuses) {
  return std::ranges::all_of(statuses, [&](const Status& status) { return status.code() == statuses.front().code(); });
}

}  // namespace

Mirror::Mirror(std::unique_ptr<VolumeClient> only)
    : only_(only.get()), active_([](std::span<const ActiveBlocks::Row>, const Interruption*) { return Status(); }) {
  replicas_.push_back(std::make_unique<Replica>());
  replicas_[0]->client = std::move(only);
  replicas_[0]->state = ReplicaState::kInSync;
}

Mirror::Mirror(size_t place, MapKeeper& keeper, OpenReplica open_replica, std::vector<Member> members,
               std::optional<milliseconds> soft, bool writable)
    : place_(place),
      keeper_(&keeper),
      open_replica_(std::move(open_replica)),
      soft_(soft),
      writable_(writable),
      active_(
          [this](std::span<const ActiveBlocks::Row> rows, const Interruption* by) { return write_rows(rows, by); }) {
  for (Member& member : members) {
    auto replica = std::make_unique<Replica>();
    replica->entry = std::move(member.entry);
    replica->name = replica->entry.source;
    replica->slot = slots_++;
    if (member.client != nullptr) replica->state = ReplicaState::kInSync;
    if (member.client == nullptr && replica->entry.state == ReplicaState::kInSync) partial_ = true;
    replica->client = std::move(member.client);
    replicas_.push_back(std::move(replica));
  }
  watch();
}

Mirror::~Mirror() { abandon(); }

VolumeClient& Mirror::first() const {
  if (only_ != nullptr) return *only_;
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
    if (replica->state.load() != ReplicaState::kInSync) continue;
    if (!connected || (!replica->client->is_away() && !replica->suspect.load())) return replica.get();
  }
  return nullptr;
}

bool Mirror::may_leave(const Replica& replica) const {
  if (replica.state.load() == ReplicaState::kSyncing) return true;
  return std::ranges::any_of(replicas_, [&](const auto& other) {
    return other.get() != &replica && other->state.load() == ReplicaState::kInSync && !other->wanted_out.load() &&
           !other->client->is_away() && other->client->final_error().ok();
  });
}

void Mirror::fail(const Status& status) {
  {
    MutexLock lock(mutex_);
    if (!failed_.ok()) return;
    failed_ = status;
    confirmed_until_ = 0;
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
    if (replica->state.load() == ReplicaState::kInSync) copies.emplace_back(replica->name, replica->client.get());
  }
  return copies;
}

// --- what is said of it

Session Mirror::session() const {
  if (only_ != nullptr) return only_->session();
  const SharedLock roster(roster_mutex_);
  std::optional<Session> least;
  for (const Replica* replica : written()) {
    if (replica->state.load() != ReplicaState::kInSync) continue;
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

// As good as that of the best: the others are taken out, or are waited for so long only.
LinkState Mirror::link_state() const {
  if (only_ != nullptr) return only_->link_state();
  {
    MutexLock lock(mutex_);
    if (!failed_.ok()) {
      return {.kind = LinkState::Kind::kFailed, .error = failed_.error(), .text = "another client has the volume"};
    }
  }
  const SharedLock roster(roster_mutex_);
  std::optional<LinkState> best;
  for (const Replica* replica : written()) {
    if (replica->state.load() != ReplicaState::kInSync) continue;
    LinkState state = replica->client->link_state();
    if (state.kind == LinkState::Kind::kConnected) return state;
    if (!best) best = std::move(state);
  }
  CHECK(best.has_value());
  return *best;
}

bool Mirror::is_away() const {
  if (only_ != nullptr) return only_->is_away();
  const SharedLock roster(roster_mutex_);
  return std::ranges::any_of(written(), [](const Replica* replica) {
    return replica->state.load() == ReplicaState::kInSync && replica->client->is_away();
  });
}

Status Mirror::final_error() const {
  if (only_ != nullptr) return only_->final_error();
  {
    MutexLock lock(mutex_);
    TRY(failed_);
  }
  const SharedLock roster(roster_mutex_);
  Status status;
  for (const Replica* replica : written()) {
    if (replica->state.load() != ReplicaState::kInSync) continue;
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

// --- calls on all

// Until the replica is out of the map, which what follows from `status` waits for. The status: it will not be.
Status Mirror::await_out(Replica& replica, const Status& status, const Interruption* by) {
  const auto began = Clock::now();
  replica.suspect = true;
  MutexLock lock(mutex_);
  while (is_written(replica)) {
    TRY(failed_);
    TRY(Interruption::check(by));
    if (closing_.load() || !may_leave(replica)) {
      replica.suspect = false;
      return status;
    }
    if (soft_ && Clock::now() - began > *soft_) return Error(EIO, "a replica is away and cannot be left out");
    changed_.wait_for(lock, kLook);
  }
  return {};
}

// What the answers of the replicas mean. Those that failed at what another did are taken out.
Status Mirror::judge(const Targets& targets, std::vector<Status>& statuses, const Interruption* by) {
  TRY(failure());
  for (size_t i = 0; i < targets.size(); ++i) {
    if (!is_written(*targets[i])) statuses[i] = Status();
    if (statuses[i].code() == ESTALE) {
      fail(statuses[i]);
      return statuses[i];
    }
  }
  for (const Status& status : statuses) {
    if (status.code() == EINTR) return status;
  }
  if (is_single_answer(statuses)) return statuses.front();
  for (size_t i = 0; i < targets.size(); ++i) {
    if (is_own_trouble(statuses[i])) TRY(await_out(*targets[i], statuses[i], by));
  }
  return {};
}

template <typename Call>
Status Mirror::on_all(const Targets& targets, Call&& call, const Interruption* by) {
  std::vector<Status> statuses;
  for (Replica* replica : targets) statuses.push_back(is_written(*replica) ? call(*replica) : Status());
  return judge(targets, statuses, by);
}

void Mirror::note_missed(BlockRange blocks) {
  for (const auto& replica : replicas_) {
    if (is_written(*replica)) continue;
    MutexLock lock(mutex_);
    if (!replica->missed_all) replica->missed.insert(blocks);
  }
}

void Mirror::note_missed(std::span<const Piece> pieces) {
  const bool all_there = std::ranges::all_of(replicas_, [this](const auto& replica) { return is_written(*replica); });
  if (all_there) return;
  for (const Piece& piece : pieces) {
    uint64_t length = 0;
    for (const LocalSlice& slice : piece.local) length += slice.length_bytes;
    if (length == 0) continue;
    const BlockAddress start = block_of(piece.address);
    note_missed({start, (raw(block_of(piece.address + length - 1)) - raw(start)) / kBlockBytes + 1});
  }
}

void Mirror::note_diverged(std::span<const Piece> pieces) {
  MutexLock lock(mutex_);
  for (const Piece& piece : pieces) {
    uint64_t length = 0;
    for (const LocalSlice& slice : piece.local) length += slice.length_bytes;
    for (uint64_t block = round_down(piece.address, kBlockBytes); block < piece.address + length;
         block += kBlockBytes) {
      diverged_.insert(BlockRange{BlockAddress{block}, 1});
      active_.keep({BlockAddress{block}, 1});
    }
  }
}

Status Mirror::alloc(BlockRange blocks) {
  if (only_ != nullptr) return only_->alloc(blocks);
  const Gate::Pass pass(gate_);
  const Targets targets = written();
  std::vector<Status> statuses;
  for (Replica* replica : targets) statuses.push_back(replica->client->alloc(blocks));
  // What is full is full for all.
  const auto full = std::ranges::find_if(statuses, [](const Status& status) { return is_refusal(status); });
  const Status status = full != statuses.end() ? *full : judge(targets, statuses, nullptr);
  note_missed(blocks);
  if (status.ok()) return {};
  for (size_t i = 0; i < targets.size(); ++i) {
    if (statuses[i].ok() && is_written(*targets[i])) static_cast<void>(targets[i]->client->free(blocks));
  }
  return status;
}

Status Mirror::free(BlockRange blocks) {
  if (only_ != nullptr) return only_->free(blocks);
  const Gate::Pass pass(gate_);
  const ActiveBlocks::Claim claim = active_.hold(blocks);
  const Status status = on_all(
      written(), [&](Replica& replica) { return replica.client->free(blocks); }, nullptr);
  note_missed(blocks);
  return status;
}

Result<std::vector<BlockRange>> Mirror::list() {
  if (only_ != nullptr) return only_->list();
  const Gate::Pass pass(gate_);
  return first().list();
}

// A brick that has replicas of several places shows each of them its share of what is free.
Result<BrickStat> Mirror::stat() {
  if (only_ != nullptr) return only_->stat();
  const Gate::Pass pass(gate_);
  const SetMap map = keeper_->map();
  std::optional<BrickStat> least;
  Status status;
  for (Replica* replica : written()) {
    if (replica->client->is_away() && least) continue;
    auto stat = replica->client->stat();
    if (!stat.ok()) {
      status = stat.error();
      continue;
    }
    const std::string& source = replica->entry.source;
    const uint64_t sharing = std::max<size_t>(1, map.count_on(source.substr(0, source.rfind('/'))));
    stat->allocatable_blocks = divide_up(stat->allocatable_blocks, sharing);
    stat->brick_capacity_blocks /= sharing;
    stat->memory_blocks /= sharing;
    if (!least) {
      least = *stat;
    } else {
      least->allocatable_blocks = std::min(least->allocatable_blocks, stat->allocatable_blocks);
      least->volume_capacity_blocks = std::min(least->volume_capacity_blocks, stat->volume_capacity_blocks);
      least->brick_capacity_blocks = std::min(least->brick_capacity_blocks, stat->brick_capacity_blocks);
    }
  }
  if (!least) return status.error();
  return *least;
}

void Mirror::map_ahead(BlockRange blocks) {
  if (only_ != nullptr) return only_->map_ahead(blocks);
  const Gate::Pass pass(gate_);
  for (Replica* replica : written()) {
    if (!replica->client->is_away()) replica->client->map_ahead(blocks);
  }
}

// --- data

std::span<const Piece> Mirror::own_pieces(const Replica& replica, std::span<const Piece> pieces,
                                          std::vector<Piece>& storage) const {
  const bool keyed = std::ranges::any_of(pieces, [](const Piece& piece) {
    return std::ranges::any_of(piece.local, [](const LocalSlice& slice) { return slice.local_key != 0; });
  });
  if (!keyed) return pieces;
  storage.assign(pieces.begin(), pieces.end());
  const SharedLock lock(keys_mutex_);
  for (Piece& piece : storage) {
    for (LocalSlice& slice : piece.local) {
      if (slice.local_key == 0) continue;
      slice.local_key = memories_[slice.local_key - 1].registrations[replica.slot].local_key();
    }
  }
  return storage;
}

Status Mirror::await_confirmed(const Interruption* by) {
  const auto began = Clock::now();
  MutexLock lock(mutex_);
  while (!is_confirmed()) {
    TRY(failed_);
    TRY(Interruption::check(by));
    if (closing_.load()) return Error(ECANCELED, "volume closed");
    if (soft_ && Clock::now() - began > *soft_) return Error(EIO, "a replica is away and cannot be left out");
    changed_.wait_for(lock, kLook);
  }
  return failed_;
}

Status Mirror::read(std::span<const Piece> pieces, const Interruption* by) {
  if (only_ != nullptr) return only_->read(pieces, by);
  const Gate::Pass pass(gate_);
  operations_.fetch_add(1, std::memory_order_relaxed);
  std::vector<Piece> storage;
  for (;;) {
    Replica* replica = first_in_sync(true);
    if (replica == nullptr) replica = first_in_sync(false);
    Status status = replica->client->try_read(own_pieces(*replica, pieces, storage));
    // It may have gone this moment, with another to ask.
    if (!status.ok() && replica->client->is_away() && first_in_sync(true) != nullptr) continue;
    if (!status.ok()) status = replica->client->read(own_pieces(*replica, pieces, storage), by);
    if (status.ok()) {
      if (!is_confirmed()) TRY(await_confirmed(by));
      return {};
    }
    TRY(failure());
    if (!is_written(*replica)) continue;
    if (status.code() == ESTALE) fail(status);
    if (!is_own_trouble(status)) return status;
    TRY(await_out(*replica, status, by));
  }
}

Status Mirror::write_claimed(const Targets& targets, std::span<const Piece> pieces, Stage stage,
                             const Interruption* by) {
  std::array<std::vector<Piece>, VolumeClient::kMostCopies> storage;
  absl::InlinedVector<VolumeClient::Copy, 4> copies;
  for (size_t i = 0; i < targets.size(); ++i) {
    copies.push_back({targets[i]->client.get(), own_pieces(*targets[i], pieces, storage[i]), {}});
  }
  VolumeClient::try_write_all(copies, stage);
  if (std::ranges::all_of(copies, [](const VolumeClient::Copy& copy) { return copy.status.ok(); })) return {};
  std::vector<Status> statuses;
  for (size_t i = 0; i < targets.size(); ++i) {
    Status status = copies[i].status;
    if (!status.ok() && is_written(*targets[i])) status = targets[i]->client->write(copies[i].pieces, stage, by);
    statuses.push_back(status);
  }
  const Status status = judge(targets, statuses, by);
  if (!status.ok()) note_diverged(pieces);
  return status;
}

Status Mirror::write(std::span<const Piece> pieces, Stage stage, const Interruption* by) {
  if (only_ != nullptr) return only_->write(pieces, stage, by);
  const Gate::Pass pass(gate_);
  operations_.fetch_add(1, std::memory_order_relaxed);
  const ActiveBlocks::Claim claim = TRY(active_.claim(pieces, by));
  const Status status = write_claimed(written(), pieces, stage, by);
  note_missed(pieces);
  return status;
}

Status Mirror::try_read(std::span<const Piece> pieces) {
  if (only_ != nullptr) return only_->try_read(pieces);
  const Gate::Pass pass(gate_);
  operations_.fetch_add(1, std::memory_order_relaxed);
  Replica* const replica = first_in_sync(true);
  if (replica == nullptr) return Error(EAGAIN, "no replica is there");
  std::vector<Piece> storage;
  TRY(replica->client->try_read(own_pieces(*replica, pieces, storage)));
  return is_confirmed() ? Status() : Error(EAGAIN, "not confirmed");
}

Status Mirror::try_write(std::span<const Piece> pieces) {
  if (only_ != nullptr) return only_->try_write(pieces);
  const Gate::Pass pass(gate_);
  operations_.fetch_add(1, std::memory_order_relaxed);
  const ActiveBlocks::Claim claim = TRY(active_.try_claim(pieces));
  const Targets targets = written();
  std::array<std::vector<Piece>, VolumeClient::kMostCopies> storage;
  absl::InlinedVector<VolumeClient::Copy, 4> copies;
  for (size_t i = 0; i < targets.size(); ++i) {
    copies.push_back({targets[i]->client.get(), own_pieces(*targets[i], pieces, storage[i]), {}});
  }
  VolumeClient::try_write_all(copies, Stage::kData);
  note_missed(pieces);
  for (const VolumeClient::Copy& copy : copies) {
    if (copy.status.ok()) continue;
    note_diverged(pieces);
    return copy.status;
  }
  return {};
}

// --- commits

Status Mirror::commit(const Interruption* by) {
  if (only_ != nullptr) return only_->commit(by);
  const Gate::Pass pass(gate_);
  const Targets targets = written();
  std::vector<Status> statuses(targets.size());
  std::vector<Thread> threads;
  for (size_t i = 1; i < targets.size(); ++i) {
    threads.push_back(Thread([&statuses, &targets, i, by] { statuses[i] = targets[i]->client->commit(by); }));
  }
  statuses[0] = targets[0]->client->commit(by);
  for (Thread& thread : threads) thread.join();
  return judge(targets, statuses, by);
}

bool Mirror::is_clean() const {
  if (only_ != nullptr) return only_->is_clean();
  const SharedLock roster(roster_mutex_);
  return std::ranges::all_of(written(), [](const Replica* replica) { return replica->client->is_clean(); });
}

uint64_t Mirror::uncommitted_bytes() const {
  if (only_ != nullptr) return only_->uncommitted_bytes();
  const SharedLock roster(roster_mutex_);
  uint64_t most = 0;
  for (const Replica* replica : written()) most = std::max(most, replica->client->uncommitted_bytes());
  return most;
}

Status Mirror::commit_blocks(std::span<const BlockRange> data, std::span<const BlockRange> journal,
                             std::span<const BlockRange> superblock) {
  if (only_ != nullptr) return only_->commit_blocks(data, journal, superblock);
  const Gate::Pass pass(gate_);
  return on_all(
      written(),
      [&](Replica& replica) {
        if (replica.client->session().suspect_blocks == 0) return Status();
        return replica.client->commit_blocks(data, journal, superblock);
      },
      nullptr);
}

// --- all of it

Result<RegisteredMemory> Mirror::register_memory(std::span<std::byte> memory) {
  if (only_ != nullptr) return only_->register_memory(memory);
  const Gate::Pass pass(gate_);
  Memory entry{memory, std::vector<RegisteredMemory>(slots_), true};
  bool keyed = false;
  for (Replica* replica : written()) {
    entry.registrations[replica->slot] = TRY(replica->client->register_memory(memory));
    keyed |= entry.registrations[replica->slot].local_key() != 0;
  }
  const ExclusiveLock lock(keys_mutex_);
  const auto unused = std::ranges::find_if(memories_, [](const Memory& one) { return !one.in_use; });
  const auto index = static_cast<uint32_t>(unused - memories_.begin());
  if (unused == memories_.end()) memories_.emplace_back();
  memories_[index] = std::move(entry);
  return RegisteredMemory(keyed ? index + 1 : 0, [this, index] {
    std::vector<RegisteredMemory> registrations;
    const ExclusiveLock release(keys_mutex_);
    memories_[index].in_use = false;
    registrations.swap(memories_[index].registrations);
  });
}

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
  changed_.notify_all();
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

bool Mirror::is_settled() const {
  const SharedLock roster(roster_mutex_);
  for (const Replica* replica : written()) {
    if (replica->state.load() != ReplicaState::kInSync) continue;
    if (!replica->client->final_error().ok() || replica->client->is_away() || replica->suspect.load()) return false;
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
    if (!closed.ok() && is_written(*replica)) result = closed;
  }
  return result;
}

// --- how replicas are

void Mirror::watch() {
  constexpr milliseconds kOutAfter{1'000};
  const auto now = Clock::now();
  bool all_heard = true;
  Status taken;
  {
    const SharedLock roster(roster_mutex_);
    for (const auto& replica : replicas_) {
      if (!is_written(*replica)) continue;
      const LinkState::Kind link = replica->client->link_state().kind;
      if (link == LinkState::Kind::kConnected) {
        replica->away_since.reset();
      } else {
        if (replica->state.load() == ReplicaState::kInSync) all_heard = false;
        if (!replica->away_since) replica->away_since = now;
      }
      const bool lost = link == LinkState::Kind::kFailed || replica->suspect.load();
      if (lost && replica->client->final_error().code() == ESTALE) taken = replica->client->final_error();
      replica->wanted_out = writable_ && (lost || (replica->away_since && now - *replica->away_since >= kOutAfter));
    }
  }
  if (!taken.ok()) return fail(taken);
  MutexLock lock(mutex_);
  if (joining_ != nullptr) {
    if (joining_->link_state().kind == LinkState::Kind::kConnected) {
      joining_away_since_.reset();
    } else if (!joining_away_since_) {
      joining_away_since_ = now;
    } else if (now - *joining_away_since_ >= kOutAfter) {
      joining_->interrupt();
    }
  }
  if (!all_heard || partial_ || !failed_.ok()) return;
  confirmed_until_ = (now + kConfirmedFor).time_since_epoch().count();
  changed_.notify_all();
}

void Mirror::confirm(Clock::time_point asked) {
  MutexLock lock(mutex_);
  if (!failed_.ok()) return;
  confirmed_until_ = std::max<int64_t>(confirmed_until_, (asked + kConfirmedFor).time_since_epoch().count());
  changed_.notify_all();
}

}  // namespace brickfs
