// SPDX-License-Identifier: Apache-2.0
#include "fs/recovery/recovery.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "fs/persistence/checkpoint.h"
#include "fs/persistence/journal_format.h"
#include "fs/recovery/make.h"
#include "transport/base/log.h"
#include "transport/brick/limits.h"

namespace brickfs {
namespace {

using Area = Finding::Area;

constexpr const char* kSuperblockName = "superblock";
constexpr const char* kCheckpointName = "checkpoint";
constexpr const char* kJournalName = "journal";

Status load_checkpoint(VolumeSet& volume, const Superblock& superblock, std::span<const BlockRange> listed,
                       const Progress& progress, TreeLoader& loader, RecoveredVolume& out) {
  for (const BlockRange& run : superblock.checkpoint.runs) out.metadata.push_back({run, kCheckpointName});
  return read_checkpoint(
      volume, superblock.checkpoint, superblock.seed(), listed, loader, progress,
      [&out](std::string damage) { out.findings.damage(Area::kCheckpoint, kNoIno, 0, std::move(damage)); });
}

Status load_journal(VolumeSet& volume, const Superblock& superblock, std::span<const BlockRange> listed,
                    TreeLoader& loader, RecoveredVolume& out) {
  out.journal =
      TRY(read_journal(volume, superblock.seed(), superblock.replay_from, superblock.journal_block, listed, loader));
  if (!out.journal.damage.empty()) {
    out.findings.damage(Area::kJournal, kNoIno, 0, out.journal.damage);
  } else if (out.journal.next <= superblock.replay_through) {
    out.findings.damage(Area::kJournal, kNoIno, 0,
                        fmt::format("the journal ends before transaction {}, but was durable through {}",
                                    raw(out.journal.next), raw(superblock.replay_through)));
  }
  for (const BlockAddress block : out.journal.chain) out.metadata.push_back({{block, 1}, kJournalName});
  if (raw(out.journal.fresh) != 0) out.metadata.push_back({{out.journal.fresh, 1}, kJournalName});
  return {};
}

// Who could write only a few more must not begin.
void look_for_exhaustion(const Superblock& superblock, RecoveredVolume& out) {
  if (raw(out.journal.next) > limits::kLsn - limits::kSpareNumbers) {
    out.findings.damage(Area::kJournal, kNoIno, 0,
                        fmt::format("transaction {}: there are no more numbers for others", raw(out.journal.next)));
  }
  if (superblock.generation > limits::kGeneration - limits::kSpareNumbers) {
    out.findings.damage(
        Area::kSuperblock, kNoIno, 0,
        fmt::format("superblock of generation {}: there are no more numbers for others", superblock.generation));
  }
}

Status commit_suspects(VolumeSet& volume, const RecoveredVolume& recovered) {
  const uint64_t suspects = volume.suspect_blocks();
  if (suspects == 0 && volume.is_settled()) return {};
  const std::vector<BlockRange> metadata = recovered.journal_and_checkpoint();
  std::vector<BlockRange> not_data = metadata;
  not_data.push_back(kSuperblockBlock);
  std::ranges::sort(not_data, {}, &BlockRange::start);
  const std::vector<BlockRange> data = subtract(recovered.blocks.kept, not_data);
  if (suspects > 0) log::info("committing {} block(s) that the former holder left uncommitted", suspects);
  return volume.settle(data, metadata, std::span(&kSuperblockBlock, 1));
}

Status make_void(VolumeSet& volume, uint64_t batch) {
  std::array<std::byte, sizeof(JournalBatchHeader)> none{};
  const Piece piece{batch, {{none.data(), none.size(), 0}}};
  TRY(volume.write(std::span(&piece, 1), Stage::kJournal));
  return volume.commit();
}

}  // namespace

std::vector<BlockRange> RecoveredVolume::journal_and_checkpoint() const {
  std::vector<BlockRange> blocks;
  for (const MetadataBlocks& part : metadata) {
    if (part.what != kSuperblockName) blocks.push_back(part.blocks);
  }
  return blocks;
}

Result<RecoveredVolume> read_rows(VolumeSet& volume, const Superblock& superblock, std::span<const BlockRange> listed,
                                  InodeTable& inodes, const Progress& progress, TreeLoader& loader) {
  RecoveredVolume out;
  out.metadata.push_back({kSuperblockBlock, kSuperblockName});
  TRY(load_checkpoint(volume, superblock, listed, progress, loader, out));
  TRY(load_journal(volume, superblock, listed, loader, out));
  look_for_exhaustion(superblock, out);
  loader.end_rows();
  out.members = loader.members();
  inodes.raise_next(superblock.next_ino);
  out.without_root = superblock.checkpoint.runs.empty() && out.journal.transactions == 0 && !out.findings.damaged();
  return out;
}

Result<RecoveredVolume> recover(VolumeSet& volume, const Superblock& superblock, std::span<const BlockRange> listed,
                                InodeTable& inodes, const Progress& progress, std::string* why) {
  TreeLoader loader(inodes);
  RecoveredVolume out = TRY(read_rows(volume, superblock, listed, inodes, progress, loader));
  if (!loader.judge(out.findings) && !out.without_root) {
    const std::string damage = out.findings.first_damage();
    *why = fmt::format(
        "this file system has no root directory that could be read: {}; `brickctl check --repair` makes one of what is "
        "left",
        damage.empty() ? "no row of it is there" : damage);
    return Error(EUCLEAN, "there is no root directory");
  }
  out.orphans = loader.orphans();
  out.blocks = reconcile(inodes, out.metadata, listed, out.findings);
  return out;
}

Status settle(VolumeSet& volume, const RecoveredVolume& recovered) {
  TRY(commit_suspects(volume, recovered));
  if (recovered.journal.void_batch) TRY(make_void(volume, *recovered.journal.void_batch));
  if (!volume.is_striped()) return {};
  TRY(volume.clear_torn_commit_record());
  volume.set_commit_position([last = raw(recovered.journal.next) - 1] { return last; });
  return volume.commit();
}

Status settle_unserved(VolumeSet& volume) {
  if (volume.is_settled()) return {};
  const std::vector<BlockRange> listed = TRY(volume.list());
  SuperblockSlots slots(volume);
  const VolumeHead head = TRY(read_head(volume, slots, listed));
  if (head.kind == VolumeHead::Kind::kMade) {
    InodeTable inodes;
    std::string why;
    const auto recovered = recover(volume, head.superblock.superblock, listed, inodes, {}, &why);
    if (recovered.ok() && !recovered->findings.damaged()) return settle(volume, *recovered);
    if (!recovered.ok() && !recovered.error().is(EUCLEAN)) return recovered.error();
  }
  return volume.settle(listed, {}, {});
}

}  // namespace brickfs
