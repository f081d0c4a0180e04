// SPDX-License-Identifier: Apache-2.0
#include "fs/recovery/check.h"

#include <fmt/core.h>

#include <algorithm>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "fs/inode/inode_paths.h"
#include "fs/recovery/make.h"
#include "fs/recovery/recovery.h"
#include "fs/recovery/tree_check.h"
#include "fs/space/block_budget.h"

namespace brickfs {
namespace {

using Area = Finding::Area;

uint64_t reserve_of(const Superblock& superblock, const RecoveredVolume& recovered) {
  const uint64_t metadata_blocks = count_blocks(recovered.journal_and_checkpoint()) + kSuperblockBlock.count;
  return BlockBudget::most_held_when_closed(metadata_blocks, superblock.checkpoint.row_bytes);
}

void note_leftovers(CheckReport& report) {
  if (report.orphans > 0) {
    report.findings.note(Area::kInode, 0,
                         fmt::format("{} unlinked file(s) will be deleted by the next mount", report.orphans));
  }
  if (report.leaked_blocks > 0 && report.unmounted) {
    report.findings.damage(
        Area::kSpace, kNoIno, 0,
        fmt::format("{} block(s) that nothing refers to were left by an unmount; the next mount will free them",
                    report.leaked_blocks));
  } else if (report.leaked_blocks > 0) {
    report.findings.note(
        Area::kSpace, 0,
        fmt::format("{} block(s) that nothing refers to will be freed by the next mount", report.leaked_blocks));
  }
}

Status check_contents(VolumeSet& volume, const VolumeHead& head, std::span<const BlockRange> listed,
                      const Progress& progress, CheckReport& report) {
  report.has_filesystem = true;
  report.unmounted = head.mark == Mark::kClean;
  report.uuid = head.superblock.superblock.uuid_text();
  InodeTable inodes;
  std::string why;
  const auto recovered = recover(volume, head.superblock.superblock, listed, inodes, progress, &why);
  if (!recovered.ok()) {
    if (!recovered.error().is(EUCLEAN)) return recovered.error();
    report.findings.damage(Area::kInode, kRootIno, 0, why);
    return {};
  }
  report.findings = recovered->findings;
  if (head.superblock.copy_damaged) {
    report.findings.note(Area::kSuperblock, 0, "one of the superblock's copies does not verify; the other one does");
  }
  report.transactions = recovered->journal.transactions;
  report.orphans = recovered->orphans.size();
  const uint64_t unused = count_blocks(recovered->blocks.leaked);
  const uint64_t kept = report.unmounted ? reserve_of(head.superblock.superblock, *recovered) : 0;
  report.leaked_blocks = unused - std::min(unused, kept);
  for (const UsedRun& used : recovered->blocks.file_runs) report.used_units += used.run.count;
  report.inodes = inodes.size();
  if (!recovered->without_root) check_tree(inodes, progress, report.findings);
  note_leftovers(report);
  absl::flat_hash_set<uint64_t> concerned;
  for (const Finding& finding : report.findings.kept()) {
    if (finding.ino != kNoIno && finding.ino != kRootIno) concerned.insert(raw(finding.ino));
  }
  report.paths = paths_of(inodes, concerned);
  return {};
}

}  // namespace

Result<CheckReport> check_filesystem(VolumeSet& volume, const Progress& progress, std::string* why) {
  CheckReport report;
  const std::vector<BlockRange> listed = TRY(volume.list());
  report.blocks = count_blocks(listed);
  SuperblockSlots slots(volume);
  const VolumeHead head = TRY(read_head(volume, slots, listed));
  switch (head.kind) {
    case VolumeHead::Kind::kUnmade:
      if (report.blocks > 0)
        report.findings.note(Area::kSuperblock, 0,
                             "the making of a file system was interrupted; the next mount makes it again");
      break;
    case VolumeHead::Kind::kNewer:
      *why = "this volume was made by a newer brickfs: " + head.why;
      return Error(ENOTSUP, "the format is newer");
    case VolumeHead::Kind::kRefused:
      report.findings.damage(Area::kSuperblock, kNoIno, 0, head.why);
      break;
    case VolumeHead::Kind::kMade:
      TRY(check_contents(volume, head, listed, progress, report));
      break;
  }
  return report;
}

}  // namespace brickfs
