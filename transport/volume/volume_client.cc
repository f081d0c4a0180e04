// SPDX-License-Identifier: Apache-2.0
// Sessions, blocks and commits of a VolumeClient; volume_data.cc moves the bytes.
#include "transport/volume/volume_client.h"

#include <algorithm>
#include <limits>

#include "transport/volume/block_ledger.h"
#include "transport/volume/replay.h"
#include "transport/volume/volume_session.h"

namespace brickfs {
namespace {

constexpr uint64_t kFollowersPart = 8;  // of the brick's memory, where that is less than the volume may have

ReplayLog::Keep what_to_keep(const Session& session, const VolumeOptions& options) {
  if (session.durability == Durability::kVolatile || options.open.mode != OpenMode::kExclusive) {
    return ReplayLog::Keep::kNothing;
  }
  return options.embedded ? ReplayLog::Keep::kRanges : ReplayLog::Keep::kBytes;
}

}  // namespace

VolumeClient::VolumeClient(std::unique_ptr<Brick> brick, VolumeOptions options)
    : options_(std::move(options)),
      ledger_(std::make_unique<BlockLedger>()),
      handles_(std::make_unique<HandleCache>()),
      link_(std::make_unique<VolumeLink>(std::move(brick), options_.open,
                                         options_.embedded ? std::nullopt : options_.soft, counters_, options_.name,
                                         options_.is_copy)) {}

VolumeClient::~VolumeClient() = default;

Result<std::unique_ptr<VolumeClient>> VolumeClient::open(std::unique_ptr<Brick> brick, VolumeOptions options,
                                                         Holder* holder) {
  std::unique_ptr<VolumeClient> volume(new VolumeClient(std::move(brick), std::move(options)));
  TRY(volume->begin(holder));
  return volume;
}

Status VolumeClient::begin(Holder* holder) {
  TRY(link_->open(holder));
  const Session session = link_->session();
  if (session.memory_blocks < session.capacity_blocks)
    most_followed_ = std::max<uint64_t>(1, session.memory_blocks / kFollowersPart);
  log_ = std::make_unique<ReplayLog>(what_to_keep(link_->session(), options_), options_.replay_bytes,
                                     options_.on_commit_wanted);
  if (tracks_blocks()) ledger_->start(TRY(list_blocks(link_->brick())));
  link_->start([this](Brick& brick, bool restarted) { return restore(brick, restarted); },
               [this] { return log_->used_bytes() == 0 && !ledger_->has_uncommitted(); });
  return {};
}

// An embedded brick has no sessions to lose.
bool VolumeClient::tracks_blocks() const { return options_.open.mode == OpenMode::kExclusive && !options_.embedded; }

// Called by the link's thread, with nothing under way.
Status VolumeClient::restore(Brick& brick, bool restarted) {
  handles_->clear();
  TRY(admit_again(brick));
  if (restarted && log_->keep() == ReplayLog::Keep::kRanges) return Error(ENODATA, "an embedded brick restarted");
  if (!tracks_blocks()) return {};
  if (restarted && options_.check_restarted) TRY(options_.check_restarted(brick));
  if (restarted) return Replay(brick, *log_, *handles_, *ledger_, options_.before_replay_commit).run();
  const std::vector<BlockRange> listed = TRY(list_blocks(brick));
  for (const BlockRange& gone : ledger_->settle(listed)) log_->forget(gone);
  return {};
}

Session VolumeClient::session() const { return link_->session(); }

LinkState VolumeClient::link_state(Asking asking) const { return link_->state(asking); }

Status VolumeClient::final_error() const { return link_->final_error(); }

Status VolumeClient::alloc(BlockRange blocks) {
  if (!is_valid(blocks)) return Error(EINVAL, "blocks to allocate");
  VolumeCounters::Call counted(counters_, VolumeCall::kAlloc);
  Patience patience(options_.soft);
  BlockRange done{blocks.start, 0};
  while (done.count < blocks.count) {
    const uint64_t count = std::min(blocks.count - done.count, limits::kBlocksPerCall);
    const Status status = alloc_once({done.end(), count}, patience);
    if (!status.ok()) {
      if (done.count > 0) static_cast<void>(free(done));  // all or nothing; what the first error says matters
      return counted.ended(status);
    }
    done.count += count;
  }
  return {};
}

Status VolumeClient::alloc_once(BlockRange blocks, Patience& patience) {
  if (tracks_blocks() && ledger_->intersects(blocks)) return Error(EEXIST, "blocks to allocate");
  bool asked = false;
  return in_session(patience, [&](Brick& brick) {
    Status status = brick.alloc(blocks);
    // They did not exist before: the call whose answer was lost made them.
    if (asked && status.code() == EEXIST) status = Status();
    // The same if it made them and the brick says now that it has no room: nobody else would know of them.
    const bool is_full = status.code() == ENOSPC || status.code() == EDQUOT;
    if (asked && is_full) static_cast<void>(brick.free(blocks));
    asked = true;
    if (status.ok()) ledger_->allocated(blocks);
    return status;
  });
}

Status VolumeClient::free(BlockRange blocks) {
  if (!is_valid(blocks)) return Error(EINVAL, "blocks to free");
  VolumeCounters::Call counted(counters_, VolumeCall::kAlloc);
  Patience patience(options_.soft);
  if (tracks_blocks()) {
    // Within a session: before it, a call to allocate them may be unanswered.
    const VolumeLink::Guard guard = TRY(link_->enter(patience));
    if (!ledger_->contains(blocks)) return Error(ENOENT, "blocks to free");
  }
  return counted.ended(free_parts(blocks, patience));
}

Status VolumeClient::free_all() {
  VolumeCounters::Call counted(counters_, VolumeCall::kAlloc);
  const auto listed = TRY(list());
  Patience patience(options_.soft);
  for (const BlockRange& blocks : listed) {
    const Status status = free_parts(blocks, patience, std::numeric_limits<uint64_t>::max());
    if (!status.ok()) return counted.ended(status);
  }
  return {};
}

Status VolumeClient::free_parts(BlockRange blocks, Patience& patience, std::optional<uint64_t> committed) {
  while (blocks.count > 0) {
    const BlockRange part{blocks.start, std::min(blocks.count, limits::kBlocksPerCall)};
    TRY(free_once(part, patience, committed));
    blocks = {part.end(), blocks.count - part.count};
  }
  return {};
}

Status VolumeClient::free_once(BlockRange blocks, Patience& patience, std::optional<uint64_t> committed) {
  bool asked = false;
  for (;;) {
    HandleCache::Retire retired;
    {
      const CommitGroup::FreeTurn turn(commits_);
      const VolumeLink::Guard guard = TRY(link_->enter(patience));
      HandleCache::Claim claim;
      retired = handles_->retire(blocks, committed.value_or(log_->committed_generation()), claim);
      if (retired == HandleCache::Retire::kDone) {
        ledger_->freeing(blocks);
        Status status = guard.brick().free(blocks);
        // They existed before: the call whose answer was lost freed them.
        if (asked && status.code() == ENOENT) status = Status();
        asked = true;
        if (status.ok()) {
          ledger_->freed(blocks);
          log_->forget(blocks);
          return {};
        }
        if (link_->lost_by(guard, status.error())) continue;
        ledger_->kept(blocks);
        return status;
      }
    }
    if (retired == HandleCache::Retire::kDirty) {
      TRY(commit());
    } else {
      handles_->await_change(HandleCache::kRecheck);
    }
  }
}

Result<std::vector<BlockRange>> VolumeClient::list() {
  Patience patience(options_.soft);
  return in_session(patience, [](Brick& brick) { return list_blocks(brick); });
}

Result<BrickStat> VolumeClient::stat() {
  Patience patience(options_.soft);
  return in_session(patience, [](Brick& brick) { return brick.stat(); });
}

Status VolumeClient::commit(const Interruption* by) {
  if (options_.open.mode != OpenMode::kExclusive) return {};
  const auto run = [this, by] {
    VolumeCounters::Call counted(counters_, VolumeCall::kCommit);
    return counted.ended(run_commit(by));
  };
  return commits_.commit(run, by);
}

// Interrupted, it leaves to the next one what it turned over.
Status VolumeClient::run_commit(const Interruption* by) {
  Patience patience(options_.soft, by);
  {
    const VolumeLink::Guard guard = TRY(link_->enter(patience));
    ledger_->turn_over();
    log_->turn_over();
  }
  if (options_.before_commit) {
    Status prepared = prepare_commit(by);
    while (prepared.code() == ENOMEM) {
      // No memory to write what goes with it. What it covers may become durable by now, and then be unmapped.
      TRY(commit_turned_over(patience));
      if (!TRY(unmap_cold(std::max<uint64_t>(1, handles_->mapped_blocks() / 8), false, patience))) {
        TRY(patience.lasts());
        handles_->await_change(HandleCache::kRecheck);
      }
      prepared = prepare_commit(by);
    }
    TRY(prepared);
  }
  TRY(commit_turned_over(patience));
  if (options_.after_commit) options_.after_commit();
  return {};
}

Status VolumeClient::commit_turned_over(Patience& patience) {
  for (;;) {
    const VolumeLink::Guard guard = TRY(link_->enter(patience));
    const Status status = commit_ranges(guard.brick(), log_->committing_ranges());
    if (status.ok()) {
      ledger_->committed();
      log_->committed();
      return {};
    }
    if (link_->lost_by(guard, status.error())) continue;
    log_->commit_failed(status.error());
    return status;
  }
}

// Outside of any stay: other bricks may be waited for, while this one comes and goes.
Status VolumeClient::prepare_commit(const Interruption* by) {
  const CommitGroup::Pause pause(commits_);
  const Status status = options_.before_commit(by);
  if (!status.ok() && !status.error().is(EINTR) && !status.error().is(ENOMEM)) log_->commit_failed(status.error());
  return status;
}

bool VolumeClient::is_clean() const {
  return log_->keep() == ReplayLog::Keep::kBytes && log_->used_bytes() == 0 && !ledger_->has_uncommitted();
}

uint64_t VolumeClient::uncommitted_bytes() const { return log_->used_bytes(); }

BlockSet VolumeClient::uncommitted_blocks() const {
  BlockSet blocks = ledger_->uncommitted();
  blocks.insert(log_->blocks());
  return blocks;
}

Status VolumeClient::commit_blocks(std::span<const BlockRange> data, std::span<const BlockRange> journal,
                                   std::span<const BlockRange> superblock) {
  std::vector<CommitRange> ranges;
  for (const auto& stage : {data, journal, superblock}) {
    bool first = !ranges.empty();
    for (const BlockRange& blocks : stage) {
      ranges.push_back({raw(blocks.start), blocks.count * kBlockBytes, first});
      first = false;
    }
  }
  Patience patience(options_.soft);
  return in_session(patience, [&](Brick& brick) { return commit_ranges(brick, ranges); });
}

Status VolumeClient::commit_bytes(uint64_t address, uint64_t length_bytes) {
  const CommitRange range{address, length_bytes, false};
  Patience patience(options_.soft);
  return in_session(patience, [&](Brick& brick) { return commit_ranges(brick, std::span(&range, 1)); });
}

Status VolumeClient::try_commit_bytes(uint64_t address, uint64_t length_bytes) {
  const CommitRange range{address, length_bytes, false};
  Patience none(std::chrono::milliseconds(0));
  const auto guard = link_->enter(none);
  if (!guard.ok()) return guard.error().is(ESTALE) ? guard.error() : Error(EAGAIN, "the brick is away");
  const Status status = commit_ranges(guard->brick(), std::span(&range, 1));
  if (status.ok() || status.code() == ESTALE || !link_->lost_by(*guard, status.error())) return status;
  return Error(EAGAIN, "the brick has gone away");
}

Result<RegisteredMemory> VolumeClient::register_memory(std::span<std::byte> memory) {
  return link_->brick().register_memory(memory);
}

void VolumeClient::share_keys(LocalKeys& keys, size_t place) {
  keys_ = keys.attach(place, [this](std::span<std::byte> memory) { return register_memory(memory); });
}

void VolumeClient::interrupt(bool uncommitted_matters) {
  link_->interrupt(uncommitted_matters);
  log_->wake();
}

Status VolumeClient::close() {
  const Status status = link_->close();
  log_->wake();
  return status;
}

}  // namespace brickfs
