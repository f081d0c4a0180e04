// SPDX-License-Identifier: Apache-2.0
// What replicas that are not in sync have missed: it is known here, of each, as long as this client has the volume, and
// noted on the others for whoever has it next.
//
// A replica was left out: what it missed until then is known. From when there is a dirty bitmap, each change is noted
// before it is acknowledged; then what was missed until then is; then the map says that it is complete. Until that, and
// if it says so no more, all is copied. A change that a crash interrupts is in a block with a row, so rows count, too.
// On a durable brick nothing else is old, whether it restarts or not: what it had not committed when it was left
// out is noted with the rest. What a volatile one has is gone when it restarts.
#include <algorithm>

#include "transport/base/random.h"
#include "transport/volume/mirror.h"
#include "transport/volume/set_membership.h"

namespace brickfs {
namespace {

std::vector<BlockRange> blocks_of(std::span<const Piece> pieces) {
  std::vector<BlockRange> blocks;
  for (const Piece& piece : pieces) {
    uint64_t length = 0;
    for (const LocalSlice& slice : piece.local) length += slice.length_bytes;
    if (length == 0) continue;
    const BlockAddress start = block_of(piece.address);
    blocks.push_back({start, (raw(block_of(piece.address + length - 1)) - raw(start)) / kBlockBytes + 1});
  }
  return blocks;
}

}  // namespace

bool Mirror::all_in_sync() const {
  return std::ranges::all_of(replicas_, [](const auto& replica) { return has_everything(*replica); });
}

std::shared_ptr<DirtyBitmap> Mirror::present_bitmap() const {
  MutexLock lock(mutex_);
  return bitmap_;
}

// So that a write to them needs no more.
bool Mirror::are_noted(std::span<const Piece> pieces) const {
  if (all_in_sync()) return true;
  const auto bitmap = present_bitmap();
  return bitmap == nullptr || bitmap->has(blocks_of(pieces));
}

// Behind the change, and before it is acknowledged.
Status Mirror::note_missed(std::span<const Piece> pieces, const Interruption* by) {
  return all_in_sync() ? Status() : note_missed(blocks_of(pieces), by);
}

Status Mirror::note_missed(std::span<const BlockRange> blocks, const Interruption* by) {
  const auto bitmap = add_missed(blocks);
  if (bitmap == nullptr) return {};
  const Status status = bitmap->note(blocks, note_writer(), by);
  if (!status.ok()) note_later(blocks);
  return status;
}

// The same without waiting. EAGAIN: there is a bitmap since are_noted() was asked.
Status Mirror::try_note_missed(std::span<const Piece> pieces) {
  if (all_in_sync()) return {};
  const std::vector<BlockRange> blocks = blocks_of(pieces);
  const auto bitmap = add_missed(blocks);
  if (bitmap == nullptr || bitmap->has(blocks)) return {};
  note_later(blocks);
  return Error(EAGAIN, "to be noted");
}

std::shared_ptr<DirtyBitmap> Mirror::add_missed(std::span<const BlockRange> blocks) {
  MutexLock lock(mutex_);
  for (const auto& replica : replicas_) {
    if (has_everything(*replica) || replica->missed_all) continue;
    for (const BlockRange& range : blocks) replica->missed.insert(range);
  }
  return bitmap_;
}

// It has changed, and could not be noted: its rows stay, which say so, too.
void Mirror::note_later(std::span<const BlockRange> blocks) {
  note_diverged(blocks);
  MutexLock lock(mutex_);
  for (const BlockRange& range : blocks) unnoted_.insert(range);
}

void Mirror::note_diverged(std::span<const Piece> pieces) { note_diverged(blocks_of(pieces)); }

void Mirror::note_diverged(std::span<const BlockRange> blocks) {
  MutexLock lock(mutex_);
  for (const BlockRange& range : blocks) {
    diverged_.insert(range);
    activity_log_.keep(range);
  }
}

DirtyBitmap::Write Mirror::note_writer() {
  return [this](std::span<const Piece> pieces, const Interruption* by) {
    return write_claimed(written(), pieces, Stage::kData, by);
  };
}

Status Mirror::write_bitmap(VolumeClient& client) {
  const auto bitmap = present_bitmap();
  if (bitmap == nullptr) return {};
  const auto write = [&client](std::span<const Piece> pieces, const Interruption* by) {
    return client.write(pieces, Stage::kData, by);
  };
  return bitmap->write(write, nullptr);
}

// Those of the last client, which the map says are complete: all replicas in sync have them.
Status Mirror::read_bitmap() {
  std::vector<Replica*> noted;
  for (const auto& replica : replicas_) {
    if (!is_written(*replica) && replica->entry.missed != 0) noted.push_back(replica.get());
  }
  if (noted.empty()) return {};
  auto bitmap = std::make_shared<DirtyBitmap>(set_, place_, noted.front()->entry.missed);
  for (Replica* replica : written()) TRY(bitmap->read(*replica->client));
  const BlockSet missed = bitmap->among(TRY(first().list()));
  MutexLock lock(mutex_);
  for (Replica* replica : noted) {
    replica->missed_all = false;
    replica->missed = missed;
    replica->noted = bitmap->number();
  }
  bitmap_ = std::move(bitmap);
  return {};
}

// What rows say, for which there will be no rows any more.
void Mirror::take_rows_as_missed(const BlockSet& rows) {
  MutexLock lock(mutex_);
  for (const auto& replica : replicas_) {
    if (!is_written(*replica) && !replica->missed_all) replica->missed.insert(rows);
  }
  if (bitmap_ != nullptr) bitmap_->insert(rows.ranges());
}

// What is known of it is not noted as a whole.
bool Mirror::is_to_be_noted(const Replica& replica) const {
  return !has_everything(replica) && !replica.missed_all && replica.noted == 0;
}

// Whether there is something to note. A bitmap that nobody needs, and of which no map says that it is complete, ends.
bool Mirror::wants_bitmap() {
  MutexLock lock(mutex_);
  bool wanted = !unnoted_.empty();
  bool needed = false;
  for (const auto& replica : replicas_) {
    needed |= !has_everything(*replica) && (!replica->missed_all || replica->noted != 0);
    wanted |= is_to_be_noted(*replica);
  }
  if (needed) return wanted;
  bitmap_.reset();
  unnoted_.clear();
  return false;
}

// Whether there was something to be noted, and all is now. An error: not now, it is to be tried again.
Result<bool> Mirror::keep_bitmap() {
  if (!wants_bitmap()) return false;
  const Gate::Pass pass(gate_);
  std::shared_ptr<DirtyBitmap> bitmap = present_bitmap();
  if (bitmap == nullptr) {
    bitmap = std::make_shared<DirtyBitmap>(set_, place_, random_id<uint64_t>());
    TRY(bitmap->write(note_writer(), &repair_stopped_));
  }
  std::vector<Replica*> noted;
  BlockSet missed;
  {
    MutexLock lock(mutex_);
    bitmap_ = bitmap;
    // Whoever changes something from now on notes it, and what was changed until now is here.
    missed = unnoted_;
    for (const auto& replica : replicas_) {
      if (!is_to_be_noted(*replica)) continue;
      missed.insert(replica->missed);
      noted.push_back(replica.get());
    }
  }
  TRY(bitmap->note(missed.ranges(), note_writer(), &repair_stopped_));
  TRY(tell_noted(noted, bitmap->number()));
  MutexLock lock(mutex_);
  unnoted_.erase(missed);
  for (Replica* replica : noted) replica->noted = bitmap->number();
  return true;
}

Status Mirror::tell_noted(const std::vector<Replica*>& noted, uint64_t number) {
  if (noted.empty()) return {};
  const auto told = keeper_->change([&](SetMap& map) {
    for (const Replica* replica : noted) {
      MapReplica* const entry = find(map, replica->entry.id);
      if (entry != nullptr && entry->state != ReplicaState::kInSync) entry->missed = number;
    }
    return true;
  });
  if (told.code() == ESTALE) fail(told.error());
  return told.ok() ? Status() : Status(told.error());
}

}  // namespace brickfs
