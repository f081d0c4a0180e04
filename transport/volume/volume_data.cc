// SPDX-License-Identifier: Apache-2.0
// How a VolumeClient moves bytes: handles for every touched block, one batch, and the kept copy of what was written.
#include <algorithm>
#include <array>
#include <optional>

#include "transport/base/check.h"
#include "transport/brick/limits.h"
#include "transport/volume/transfer_round.h"
#include "transport/volume/volume_client.h"

namespace brickfs {
namespace {

constexpr std::chrono::milliseconds kRoomRecheck{100};
constexpr int kRefusals = 3;  // of fresh handles, before an operation gives up

}  // namespace

Status VolumeClient::read(std::span<const Piece> pieces, const Interruption* by) {
  Patience patience(options_.soft, by);
  TransferRound round(pieces, Direction::kRead, keys_);
  VolumeCounters::Call counted(counters_, VolumeCall::kRead, round.total_bytes());
  ReplayLog::Room none;
  const Status status = transfer(round, Stage::kData, none, patience);
  bound_followed(patience);
  return counted.ended(status);
}

Status VolumeClient::write(std::span<const Piece> pieces, Stage stage, const Interruption* by,
                           const StagedWrite* staged) {
  Patience patience(options_.soft, by);
  TransferRound round(pieces, Direction::kWrite, keys_, staged);
  VolumeCounters::Call counted(counters_, VolumeCall::kWrite, round.total_bytes());
  return counted.ended(write(round, stage, patience));
}

Status VolumeClient::write(TransferRound& round, Stage stage, Patience& patience) {
  ReplayLog::Room room = TRY(reserve(round.total_bytes(), stage, patience));
  TRY(transfer(round, stage, room, patience));
  bound_writable(patience);
  return {};
}

Status VolumeClient::write_with_commit(const Piece& piece, Stage stage, const Interruption* by) {
  Patience patience(options_.soft, by);
  TransferRound round(std::span(&piece, 1), Direction::kWrite, keys_);
  // Of whatever stage: it does not wait for room that this commit is to make.
  std::optional<ReplayLog::Room> room = log_->try_reserve(round.total_bytes(), Stage::kJournal);
  CHECK(room.has_value());
  room->join_committing();
  return transfer(round, stage, *room, patience, Shortage::kTell);
}

Result<ReplayLog::Room> VolumeClient::reserve(uint64_t bytes, Stage stage, Patience& patience) {
  bool others_commit = options_.on_commit_wanted != nullptr;  // in time, as it should be
  for (;;) {
    std::optional<ReplayLog::Room> room = log_->try_reserve(bytes, stage);
    if (room) return std::move(*room);
    static_cast<void>(TRY(link_->enter(patience)));  // while the brick is away, nobody can commit
    TRY(Interruption::check(patience.interruption()));
    if (!others_commit) {
      TRY(commit(patience.interruption()));
      continue;
    }
    TRY(log_->wait_for_room(bytes, kRoomRecheck));
    others_commit = log_->has_room_for(bytes);
  }
}

Status VolumeClient::transfer(TransferRound& round, Stage stage, ReplayLog::Room& room, Patience& patience,
                              Shortage shortage) {
  int refusals = 0;
  while (!round.finished()) {
    Status status;
    {
      const VolumeLink::Guard guard = TRY(link_->enter(patience));
      status = gather(guard, round);
      const bool posted = !round.empty();
      if (posted) status = post(guard, round, stage, room);
      round.restart();  // leases end before the stay does
      if (status.ok() || link_->lost_by(guard, status.error())) continue;
      if (posted) {
        if (++refusals > kRefusals) return Error(EIO, "handles that the brick has just given are refused");
        if (options_.open.mode == OpenMode::kFollow) {
          drop_handles(guard, round.blocks());
        } else {
          check_session(guard);
        }
        continue;
      }
    }
    if (!status.error().is(ENOMEM) || shortage == Shortage::kTell) return status;
    TRY(make_room(patience));
  }
  return {};
}

Status VolumeClient::try_read(std::span<const Piece> pieces) {
  TransferRound round(pieces, Direction::kRead, keys_);
  VolumeCounters::Call counted(counters_, VolumeCall::kRead, round.total_bytes());
  ReplayLog::Room none;
  return counted.ended(transfer_at_once(round, none));
}

Status VolumeClient::try_write(std::span<const Piece> pieces) {
  TransferRound round(pieces, Direction::kWrite, keys_);
  std::optional<ReplayLog::Room> room = log_->try_reserve(round.total_bytes(), Stage::kData);
  if (!room) return Error(EAGAIN, "no room for what has to be kept");
  VolumeCounters::Call counted(counters_, VolumeCall::kWrite, round.total_bytes());
  TRY(counted.ended(transfer_at_once(round, *room)));
  Patience none(std::chrono::milliseconds(0));
  bound_writable(none);
  return {};
}

Status VolumeClient::transfer_at_once(TransferRound& round, ReplayLog::Room& room) {
  Patience none(std::chrono::milliseconds(0));
  const VolumeLink::Guard guard = TRY(link_->enter(none));
  Status status = gather(guard, round);
  if (status.ok() && round.wants_more()) status = Error(EAGAIN, "more than one batch");
  if (status.ok()) status = post(guard, round, Stage::kData, room);
  round.restart();  // leases end before the stay does
  if (!status.ok()) static_cast<void>(link_->lost_by(guard, status.error()));
  return status;
}

// A write on its way to one of several volumes.
struct VolumeClient::Posted {
  Posted(VolumeClient& volume, const StagedWrite& staged)
      : round(staged.pieces(), Direction::kWrite, volume.keys_, &staged) {}

  TransferRound round;
  std::optional<ReplayLog::Room> room;
  VolumeLink::Guard guard;
  std::vector<ReplayLog::Record> copies;
  Batch* batch = nullptr;  // on its way
};

Status VolumeClient::post_at_once(Posted& write, Stage stage) {
  write.room = log_->try_reserve(write.round.total_bytes(), stage);
  if (!write.room) return Error(EAGAIN, "no room for what has to be kept");
  Patience none(std::chrono::milliseconds(0));
  write.guard = TRY(link_->enter(none));
  const Status gathered = gather(write.guard, write.round);
  if (!gathered.ok()) {
    write.round.restart();
    static_cast<void>(link_->lost_by(write.guard, gathered.error()));
    return gathered;
  }
  if (write.round.wants_more()) {
    write.round.restart();
    return Error(EAGAIN, "more than one batch");
  }
  write.batch = &write.round.batch();
  write.guard.brick().submit(*write.batch);
  return {};
}

Status VolumeClient::finish(Posted& write) {
  const Status status = write.guard.brick().wait(*write.batch);
  if (status.ok()) {
    write.round.written(log_->append(std::move(write.copies), *write.room));
    write.round.finish();
  }
  write.round.restart();  // leases end before the stay does
  if (!status.ok()) static_cast<void>(link_->lost_by(write.guard, status.error()));
  write.guard = {};
  return status;
}

void VolumeClient::try_write_all(std::span<Copy> copies, const StagedWrite& staged, Stage stage) {
  CHECK(copies.size() <= kMostCopies);
  std::array<std::optional<Posted>, kMostCopies> writes;
  for (size_t i = 0; i < copies.size(); ++i) {
    writes[i].emplace(*copies[i].volume, staged);
    copies[i].status = copies[i].volume->post_at_once(*writes[i], stage);
    copies[i].posted = writes[i]->batch != nullptr;
  }
  for (size_t i = 0; i < copies.size(); ++i) {
    if (writes[i]->batch != nullptr) writes[i]->round.copy_to(*copies[i].volume->log_, stage, writes[i]->copies);
  }
  for (size_t i = 0; i < copies.size(); ++i) {
    if (writes[i]->batch == nullptr) continue;
    VolumeCounters::Call counted(copies[i].volume->counters_, VolumeCall::kWrite, writes[i]->round.total_bytes());
    copies[i].status = counted.ended(copies[i].volume->finish(*writes[i]));
    if (!copies[i].status.ok()) continue;
    Patience none(std::chrono::milliseconds(0));
    copies[i].volume->bound_writable(none);
  }
}

Status VolumeClient::make_visible() {
  Patience none(std::chrono::milliseconds(0));
  const VolumeLink::Guard guard = TRY(link_->enter(none));
  const Status status = guard.brick().make_visible();
  if (!status.ok()) static_cast<void>(link_->lost_by(guard, status.error()));
  return status;
}

// A handle was refused: the session has ended and nobody has said so yet, or it is not what it seems.
void VolumeClient::check_session(const VolumeLink::Guard& guard) {
  const Result<BrickStat> alive = guard.brick().stat();
  if (alive.ok() || !link_->lost_by(guard, alive.error())) link_->distrust(guard);
}

// The holder has taken them from who follows him. Another who reads by them now finds that himself.
void VolumeClient::drop_handles(const VolumeLink::Guard& guard, const BlockSet& blocks) {
  blocks.for_each(limits::kBlocksPerCall, [&](BlockRange range) {
    HandleCache::Claim claim;
    if (handles_->retire(range, log_->committed_generation(), claim) != HandleCache::Retire::kDone) return true;
    const Status status = guard.brick().unmap(range);
    return status.ok() || !link_->lost_by(guard, status.error());
  });
}

// As many transfers as there are handles for. What cannot be mapped now ends the round; an error with nothing gathered
// is final.
Status VolumeClient::gather(const VolumeLink::Guard& guard, TransferRound& round) {
  round.restart();
  while (round.wants_more()) {
    const BlockAddress block = block_of(round.next_address());
    HandleCache::Lease lease = handles_->find(block, round.access());
    if (!lease) lease = TRY(map(guard, block, round.next_blocks(), round.access()));
    round.add(std::move(lease));
  }
  return {};
}

Result<HandleCache::Lease> VolumeClient::map(const VolumeLink::Guard& guard, BlockAddress block, uint64_t most,
                                             Access access) {
  for (;;) {
    HandleCache::Claim claim = handles_->claim_missing(block, std::min(most, limits::kBlocksPerHandle), access);
    if (claim.empty()) {  // somebody else has just mapped it
      HandleCache::Lease lease = handles_->find(block, access);
      if (lease) return lease;
      continue;
    }
    auto mapped = guard.brick().map(claim.range(), access);
    if (!mapped.ok() && mapped.error().is(ENOMEM) && claim.range().count > 1) {
      handles_->shorten(claim, 1);
      mapped = guard.brick().map(claim.range(), access);
    }
    if (!mapped.ok()) return mapped.error();
    return handles_->insert(std::move(claim), *mapped, access, block);
  }
}

Status VolumeClient::post(const VolumeLink::Guard& guard, TransferRound& round, Stage stage, ReplayLog::Room& room) {
  Batch& batch = round.batch();
  guard.brick().submit(batch);
  std::vector<ReplayLog::Record> copies;
  const bool writes = round.access() == Access::kReadWrite;
  if (writes) round.copy_to(*log_, stage, copies);  // while the bytes travel
  TRY(guard.brick().wait(batch));
  // Within the stay: a replay, which waits for its end, must find it.
  if (writes) round.written(log_->append(std::move(copies), room));
  round.finish();
  return {};
}

void VolumeClient::map_ahead(BlockRange blocks) {
  if (!is_valid(blocks)) return;
  Patience patience(options_.soft);
  bound_writable(patience);
  BlockAddress next = blocks.start;
  while (next < blocks.end()) {
    const auto guard = link_->enter(patience);
    if (!guard.ok()) return;
    HandleCache::Lease lease = handles_->find(next, Access::kReadWrite);
    if (!lease) {
      const uint64_t rest = (raw(blocks.end()) - raw(next)) / kBlockBytes;
      auto mapped = map(*guard, next, rest, Access::kReadWrite);
      if (!mapped.ok()) {
        if (link_->lost_by(*guard, mapped.error())) continue;
        return;
      }
      lease = std::move(*mapped);
    }
    next = lease.handle().blocks.end();
  }
}

// The brick has no memory for another block: give the coldest of ours back, or wait until some are not in use.
Status VolumeClient::make_room(Patience& patience) {
  const uint64_t some = std::max<uint64_t>(1, handles_->mapped_blocks() / 8);
  if (TRY(unmap_cold(some, false, patience))) return {};
  if (log_->used_bytes() > 0) {
    // What is unmapped may become durable at any time, so it must have been committed, in order, before.
    TRY(commit(patience.interruption()));
    if (TRY(unmap_cold(some, false, patience))) return {};
  }
  TRY(patience.lasts());
  handles_->await_change(HandleCache::kRecheck);
  return {};
}

// False: none is unused and clean.
Result<bool> VolumeClient::unmap_cold(uint64_t blocks, bool writable, Patience& patience) {
  const VolumeLink::Guard guard = TRY(link_->enter(patience));
  const HandleCache::Claim cold = handles_->take_cold(blocks, log_->committed_generation(), writable);
  if (cold.empty()) return false;
  cold.blocks().for_each(limits::kBlocksPerCall, [&](BlockRange range) {
    const Status status = guard.brick().unmap(range);
    if (!status.ok() && !link_->lost_by(guard, status.error())) link_->distrust(guard);
    return status.ok();
  });
  return true;
}

// Of memory that the holder needs, too.
void VolumeClient::bound_followed(Patience& patience) {
  if (options_.open.mode != OpenMode::kFollow || handles_->mapped_blocks() <= most_followed_) return;
  if (bounding_.exchange(true)) return;  // one at a time is enough
  static_cast<void>(unmap_cold(std::max<uint64_t>(1, most_followed_ / 8), false, patience));
  bounding_.store(false);
}

void VolumeClient::bound_writable(Patience& patience) {
  if (!bounds_writable() || handles_->writable_blocks() <= limits::kWritableBlocks) return;
  if (bounding_.exchange(true)) return;  // one at a time is enough
  static_cast<void>(unmap_cold(limits::kWritableBlocks / 32, true, patience));
  bounding_.store(false);
}

}  // namespace brickfs
