// SPDX-License-Identifier: Apache-2.0
// What a place does with the calls of its set: on all replicas, or on one in sync.
#include <algorithm>

#include "transport/base/check.h"
#include "transport/base/thread.h"
#include "transport/brick/store_trouble.h"
#include "transport/volume/mirror.h"

namespace brickfs {
namespace {

using std::chrono::milliseconds;

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

// --- calls on all

// Until the replica is out of the map, which what follows from `status` waits for. The status: it will not be.
Status Mirror::await_out(Replica& replica, const Status& status, const Interruption* by) {
  const auto began = Clock::now();
  const bool is_of_store = status.code() == EIO && !replica.client->is_away();
  raise(replica, is_of_store ? ReplicaEvent::kStoreFailed : ReplicaEvent::kFailed);
  while (is_written(replica)) {
    if (closing_.load() || !has_another(replica, false)) {
      raise(replica, ReplicaEvent::kForgiven);
      return status;
    }
    MutexLock lock(mutex_);
    TRY(failed_);
    TRY(Interruption::check(by));
    if (soft_ && Clock::now() - began > *soft_) return Error(EIO, "a replica is away and cannot be left out");
    changed_.wait_for(lock, kLook);
  }
  return {};
}

// What the answers of the replicas mean. Those that failed at what another did are left out.
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

Status Mirror::alloc(BlockRange blocks) {
  CHECK(is_settled());
  const Gate::Pass pass(gate_);
  const Targets targets = written();
  std::vector<Status> statuses;
  for (Replica* replica : targets) statuses.push_back(replica->client->alloc(blocks));
  // What is full is full for all.
  const auto full = std::ranges::find_if(statuses, [](const Status& status) { return is_refusal(status); });
  Status status = full != statuses.end() ? *full : judge(targets, statuses, nullptr);
  if (status.ok() && !all_in_sync()) status = note_missed(std::span(&blocks, 1), nullptr);
  if (status.ok()) return {};
  for (size_t i = 0; i < targets.size(); ++i) {
    if (statuses[i].ok() && is_written(*targets[i])) static_cast<void>(targets[i]->client->free(blocks));
  }
  return status;
}

Status Mirror::free(BlockRange blocks) {
  CHECK(is_settled());
  const Gate::Pass pass(gate_);
  const ActivityLog::Claim claim = activity_log_.hold(blocks);
  return on_all(
      written(), [&](Replica& replica) { return replica.client->free(blocks); }, nullptr);
}

Result<std::vector<BlockRange>> Mirror::list() {
  const Gate::Pass pass(gate_);
  for (;;) {
    Replica* const replica = first_in_sync(false);
    auto listed = replica->client->list();
    if (listed.ok() || is_written(*replica)) return listed;  // else it was left out, and the next one is asked
  }
}

// A brick that has replicas of several places shows each of them its share of what is free.
Result<BrickStat> Mirror::stat() {
  const Gate::Pass pass(gate_);
  const auto map = keeper_->map();
  std::optional<BrickStat> least;
  Status status;
  for (Replica* replica : written()) {
    if (replica->client->is_away() && least) continue;
    auto stat = replica->client->stat();
    if (!stat.ok()) {
      status = stat.error();
      continue;
    }
    const MapReplica* const entry = find(*map, replica->entry.id);  // whose brick may have another address by now
    const std::string& source = entry == nullptr ? replica->entry.source : entry->source;
    const uint64_t sharing = std::max<size_t>(1, map->count_on(source.substr(0, source.rfind('/'))));
    stat->allocatable_blocks = divide_up(stat->allocatable_blocks, sharing);
    stat->brick_capacity_blocks /= sharing;
    stat->memory_blocks /= sharing;
    if (!least) {
      least = *stat;
    } else {
      least->allocatable_blocks = std::min(least->allocatable_blocks, stat->allocatable_blocks);
      least->volume_capacity_blocks = std::min(least->volume_capacity_blocks, stat->volume_capacity_blocks);
      least->brick_capacity_blocks = std::min(least->brick_capacity_blocks, stat->brick_capacity_blocks);
      if (store_trouble(least->medium).empty() && !store_trouble(stat->medium).empty()) least->medium = stat->medium;
    }
  }
  if (!least) return status.error();
  return *least;
}

std::vector<std::string> Mirror::full_bricks() {
  std::vector<std::string> full;
  const Gate::Pass pass(gate_);
  for (Replica* replica : written()) {
    if (replica->client->is_away()) continue;
    const auto stat = replica->client->stat();
    if (stat.ok() && stat->allocatable_blocks == 0) full.push_back(replica->name);
  }
  return full;
}

void Mirror::map_ahead(BlockRange blocks) {
  const Gate::Pass pass(gate_);
  for (Replica* replica : written()) {
    if (!replica->client->is_away()) replica->client->map_ahead(blocks);
  }
}

// --- data

Status Mirror::await_confirmed(const Interruption* by) {
  const auto began = Clock::now();
  MutexLock lock(mutex_);
  while (!confirmation_.holds()) {
    TRY(failed_);
    TRY(Interruption::check(by));
    if (closing_.load()) return Error(ECANCELED, "volume closed");
    if (soft_ && Clock::now() - began > *soft_) return Error(EIO, "a replica is away and cannot be left out");
    changed_.wait_for(lock, kLook);
  }
  return failed_;
}

Status Mirror::read(std::span<const Piece> pieces, const Interruption* by) {
  const Gate::Pass pass(gate_, by);
  TRY(pass.entered());
  operations_.fetch_add(1, std::memory_order_relaxed);
  Targets failed;
  for (;;) {
    Replica* const replica = to_read();
    Status status = replica->client->try_read(pieces);
    // It may have gone this moment, with another to ask.
    if (!status.ok() && replica->client->is_away() && to_read() != replica) continue;
    if (!status.ok()) status = replica->client->read(pieces, by);
    if (status.ok()) {
      if (!confirmation_.holds()) TRY(await_confirmed(by));
      return {};
    }
    TRY(failure());
    if (!is_written(*replica)) continue;
    if (status.code() == ESTALE) fail(status);
    if (!is_own_trouble(status)) return status;
    if (!writable_) {  // which leaves nobody out: another is asked, until watch() sees it well again
      raise(*replica, ReplicaEvent::kFailed);
      failed.push_back(replica);
      if (std::ranges::find(failed, to_read()) == failed.end()) continue;
      return status;
    }
    TRY(await_out(*replica, status, by));
  }
}

// The same bytes to all, whatever becomes of the caller's meanwhile.
Mirror::Copies::Copies(Mirror& mirror, const Targets& targets, std::span<const Piece> pieces)
    : staged_(pieces, *mirror.buffers_) {
  for (const Replica* replica : targets) copies_.push_back({replica->client.get()});
}

void Mirror::Copies::try_write(Stage stage) { VolumeClient::try_write_all(copies_, staged_, stage); }

Status Mirror::write_claimed(const Targets& targets, std::span<const Piece> pieces, Stage stage,
                             const Interruption* by) {
  Copies copies(*this, targets, pieces);
  copies.try_write(stage);
  if (std::ranges::all_of(copies.all(), [](const VolumeClient::Copy& copy) { return copy.status.ok(); })) return {};
  std::vector<Status> statuses;
  for (size_t i = 0; i < targets.size(); ++i) {
    const VolumeClient::Copy& copy = copies.all()[i];
    Status status = copy.status;
    if (!status.ok() && is_written(*targets[i]))
      status = copy.volume->write(copies.staged().pieces(), stage, by, &copies.staged());
    statuses.push_back(status);
  }
  const Status status = judge(targets, statuses, by);
  if (!status.ok()) note_diverged(pieces);
  return status;
}

Status Mirror::write(std::span<const Piece> pieces, Stage stage, const Interruption* by) {
  CHECK(is_settled());
  const Gate::Pass pass(gate_, by);
  TRY(pass.entered());
  operations_.fetch_add(1, std::memory_order_relaxed);
  while (!pieces.empty()) {
    const auto part = pieces.first(ActivityLog::claimable(pieces));
    const ActivityLog::Claim claim = TRY(activity_log_.claim(part, by));
    const Status status = write_claimed(written(), part, stage, by);
    const Status noted = note_missed(part, by);
    TRY(status);
    TRY(noted);
    pieces = pieces.subspan(part.size());
  }
  return {};
}

Status Mirror::try_read(std::span<const Piece> pieces) {
  const Gate::Pass pass(gate_, std::try_to_lock);
  TRY(pass.entered());
  operations_.fetch_add(1, std::memory_order_relaxed);
  Replica* const replica = to_read();
  if (replica->client->is_away()) return Error(EAGAIN, "no replica is there");
  TRY(replica->client->try_read(pieces));
  return confirmation_.holds() ? Status() : Error(EAGAIN, "not confirmed");
}

Status Mirror::try_write(std::span<const Piece> pieces) {
  CHECK(is_settled());
  const Gate::Pass pass(gate_, std::try_to_lock);
  TRY(pass.entered());
  operations_.fetch_add(1, std::memory_order_relaxed);
  const ActivityLog::Claim claim = TRY(activity_log_.try_claim(pieces));
  if (!are_noted(pieces)) return Error(EAGAIN, "to be noted");
  Copies copies(*this, written(), pieces);
  copies.try_write(Stage::kData);
  const auto failed = std::ranges::find_if(copies.all(), [](const auto& copy) { return !copy.status.ok(); });
  if (std::ranges::none_of(copies.all(), &VolumeClient::Copy::posted)) return failed->status;
  const Status noted = try_note_missed(pieces);
  if (failed == copies.all().end()) return noted;
  note_diverged(pieces);
  return failed->status;
}

// --- commits

Status Mirror::commit(const Interruption* by) {
  CHECK(is_settled());
  const Gate::Pass pass(gate_, by);
  TRY(pass.entered());
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
  const SharedLock roster(roster_mutex_);
  return std::ranges::all_of(written(), [](const Replica* replica) { return replica->client->is_clean(); });
}

uint64_t Mirror::uncommitted_bytes() const {
  const SharedLock roster(roster_mutex_);
  uint64_t most = 0;
  for (const Replica* replica : written()) most = std::max(most, replica->client->uncommitted_bytes());
  return most;
}

Status Mirror::settle(std::span<const BlockRange> data, std::span<const BlockRange> journal,
                      std::span<const BlockRange> superblock) {
  const Gate::Pass pass(gate_);
  if (!settled_.load()) return make_equal({BlockSet(data), BlockSet(journal), BlockSet(superblock)});
  return on_all(
      written(), [&](Replica& replica) { return replica.client->commit_blocks(data, journal, superblock); }, nullptr);
}

}  // namespace brickfs
