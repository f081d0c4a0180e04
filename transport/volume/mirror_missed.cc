// SPDX-License-Identifier: Apache-2.0
// What replicas that are not in sync have missed: it is known here, of each, as long as this client has the volume, and
// noted on the others for whoever has it next.
//
// A replica was left out: what it missed until then is known. From when there are notes, each change is noted before it
// is acknowledged; then what was missed until then is; then the map says that the notes are complete. Until that, and
// if it says so no more, all is copied. A change that a crash interrupts is in a block with a row, so rows count as
// notes. On a durable brick nothing else is old, whether it restarts or not: what it had not committed when it was left
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

std::shared_ptr<MissedNotes> Mirror::present_notes() const {
  MutexLock lock(mutex_);
  return notes_;
}

// So that a write to them needs no more.
bool Mirror::are_noted(std::span<const Piece> pieces) const {
  if (all_in_sync()) return true;
  const auto notes = present_notes();
  return notes == nullptr || notes->has(blocks_of(pieces));
}

// Behind the change, and before it is acknowledged.
Status Mirror::note_missed(std::span<const Piece> pieces, const Interruption* by) {
  return all_in_sync() ? Status() : note_missed(blocks_of(pieces), by);
}

Status Mirror::note_missed(std::span<const BlockRange> blocks, const Interruption* by) {
  const auto notes = add_missed(blocks);
  if (notes == nullptr) return {};
  const Status status = notes->note(blocks, note_writer(), by);
  if (!status.ok()) note_later(blocks);
  return status;
}

// The same without waiting. EAGAIN: there are notes since are_noted() was asked.
Status Mirror::try_note_missed(std::span<const Piece> pieces) {
  if (all_in_sync()) return {};
  const std::vector<BlockRange> blocks = blocks_of(pieces);
  const auto notes = add_missed(blocks);
  if (notes == nullptr || notes->has(blocks)) return {};
  note_later(blocks);
  return Error(EAGAIN, "to be noted");
}

std::shared_ptr<MissedNotes> Mirror::add_missed(std::span<const BlockRange> blocks) {
  MutexLock lock(mutex_);
  for (const auto& replica : replicas_) {
    if (has_everything(*replica) || replica->missed_all) continue;
    for (const BlockRange& range : blocks) replica->missed.insert(range);
  }
  return notes_;
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

MissedNotes::Write Mirror::note_writer() {
  return [this](std::span<const Piece> pieces, const Interruption* by) {
    return write_claimed(written(), pieces, Stage::kData, by);
  };
}

Status Mirror::write_notes(VolumeClient& client) {
  const auto notes = present_notes();
  if (notes == nullptr) return {};
  const auto write = [&client](std::span<const Piece> pieces, const Interruption* by) {
    return client.write(pieces, Stage::kData, by);
  };
  return notes->write(write, nullptr);
}

// Those of the last client, which the map says are complete: all replicas in sync have them.
Status Mirror::read_notes() {
  std::vector<Replica*> noted;
  for (const auto& replica : replicas_) {
    if (!is_written(*replica) && replica->entry.missed != 0) noted.push_back(replica.get());
  }
  if (noted.empty()) return {};
  auto notes = std::make_shared<MissedNotes>(set_, place_, noted.front()->entry.missed);
  for (Replica* replica : written()) TRY(notes->read(*replica->client));
  const BlockSet missed = notes->among(TRY(first().list()));
  MutexLock lock(mutex_);
  for (Replica* replica : noted) {
    replica->missed_all = false;
    replica->missed = missed;
    replica->noted = notes->number();
  }
  notes_ = std::move(notes);
  return {};
}

// What rows say, for which there will be no rows any more.
void Mirror::take_rows_as_missed(const BlockSet& rows) {
  MutexLock lock(mutex_);
  for (const auto& replica : replicas_) {
    if (!is_written(*replica) && !replica->missed_all) replica->missed.insert(rows);
  }
  if (notes_ != nullptr) notes_->insert(rows.ranges());
}

// What is known of it is not noted as a whole.
bool Mirror::is_to_be_noted(const Replica& replica) const {
  return !has_everything(replica) && !replica.missed_all && replica.noted == 0;
}

// Whether there is something to note. Notes that nobody needs, and of which no map says that they are complete, end.
bool Mirror::wants_notes() {
  MutexLock lock(mutex_);
  bool wanted = !unnoted_.empty();
  bool needed = false;
  for (const auto& replica : replicas_) {
    needed |= !has_everything(*replica) && (!replica->missed_all || replica->noted != 0);
    wanted |= is_to_be_noted(*replica);
  }
  if (needed) return wanted;
  notes_.reset();
  unnoted_.clear();
  return false;
}

// Whether there was something to be noted, and all is now. An error: not now, it is to be tried again.
Result<bool> Mirror::keep_notes() {
  if (!wants_notes()) return false;
  const Gate::Pass pass(gate_);
  std::shared_ptr<MissedNotes> notes = present_notes();
  if (notes == nullptr) {
    notes = std::make_shared<MissedNotes>(set_, place_, random_id<uint64_t>());
    TRY(notes->write(note_writer(), &repair_stopped_));
  }
  std::vector<Replica*> noted;
  BlockSet missed;
  {
    MutexLock lock(mutex_);
    notes_ = notes;
    // Whoever changes something from now on notes it, and what was changed until now is here.
    missed = unnoted_;
    for (const auto& replica : replicas_) {
      if (!is_to_be_noted(*replica)) continue;
      missed.insert(replica->missed);
      noted.push_back(replica.get());
    }
  }
  TRY(notes->note(missed.ranges(), note_writer(), &repair_stopped_));
  TRY(tell_noted(noted, notes->number()));
  MutexLock lock(mutex_);
  unnoted_.erase(missed);
  for (Replica* replica : noted) replica->noted = notes->number();
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
