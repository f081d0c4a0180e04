// SPDX-License-Identifier: Apache-2.0
#include "fs/recovery.h"

#include <fmt/format.h>

#include "fs/checkpoint.h"

namespace brickfs {
namespace {

using Area = Finding::Area;

constexpr const char* kSuperblockName = "superblock";
constexpr const char* kCheckpointName = "checkpoint";
constexpr const char* kJournalName = "journal";

bool is_listed(const BlockRange& blocks, std::span<const BlockRange> listed) {
  return is_valid(blocks) && subtract(std::span(&blocks, 1), listed).empty();
}

// A checkpoint that cannot be read whole is damage; what of it was read stays.
Status load_checkpoint(VolumeClient& volume, const Superblock& superblock, std::span<const BlockRange> listed,
                       TreeLoader& loader, RecoveredVolume& out) {
  const CheckpointPlace& place = superblock.checkpoint;
  if (place.runs.empty()) return {};
  for (const BlockRange& run : place.runs) {
    out.metadata.push_back({run, kCheckpointName});
    if (!is_listed(run, listed)) {
      out.findings.damage(Area::kCheckpoint, kNoIno, raw(run.start),
                          fmt::format("the checkpoint's block(s) at {:#x} are not on the brick", raw(run.start)));
    }
  }
  if (out.findings.damaged()) return {};
  std::string why;
  const Status status = read_checkpoint(volume, place, superblock.seed(), loader, &why);
  if (status.ok() || !status.error().is(EUCLEAN)) return status;
  out.findings.damage(Area::kCheckpoint, kNoIno, 0, why.empty() ? status.error().what() : why);
  return {};
}

Status load_journal(VolumeClient& volume, const Superblock& superblock, std::span<const BlockRange> listed,
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

}  // namespace

std::vector<BlockRange> RecoveredVolume::journal_and_checkpoint() const {
  std::vector<BlockRange> blocks;
  for (const MetadataBlocks& part : metadata) {
    if (part.what != kSuperblockName) blocks.push_back(part.blocks);
  }
  return blocks;
}

Result<RecoveredVolume> recover(VolumeClient& volume, const Superblock& superblock, std::span<const BlockRange> listed,
                                InodeTable& inodes, std::string* why) {
  RecoveredVolume out;
  out.metadata.push_back({kSuperblockBlock, kSuperblockName});
  TreeLoader loader(inodes);
  TRY(load_checkpoint(volume, superblock, listed, loader, out));
  TRY(load_journal(volume, superblock, listed, loader, out));

  inodes.raise_next(superblock.next_ino);
  out.without_root = superblock.checkpoint.runs.empty() && out.journal.transactions == 0 && !out.findings.damaged();
  if (!loader.finish(out.findings) && !out.without_root) {
    const std::string damage = out.findings.first_damage();
    *why = "this file system cannot be read: " + (damage.empty() ? "there is no root directory" : damage);
    return Error(EUCLEAN, "there is no root directory");
  }
  out.orphans = loader.orphans();
  out.blocks = reconcile(inodes, out.metadata, listed, out.findings);
  return out;
}

}  // namespace brickfs
