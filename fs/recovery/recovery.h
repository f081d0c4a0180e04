// SPDX-License-Identifier: Apache-2.0
// Reads the metadata of a volume into memory: superblock, checkpoint, journal, tree, use of blocks. Changes nothing on
// the brick, so a mount, a read-only mount and a check all begin with it. docs/recovery.md has the decision table.
// Threads: one.
#pragma once

#include <string>
#include <vector>

#include "fs/base/finding.h"
#include "fs/inode/inode_table.h"
#include "fs/persistence/journal_reader.h"
#include "fs/persistence/superblock.h"
#include "fs/recovery/reconcile.h"
#include "fs/recovery/tree_loader.h"
#include "transport/base/progress.h"
#include "transport/base/result.h"
#include "transport/volume/volume_set.h"

namespace brickfs {

struct RecoveredVolume {
  JournalEnd journal;
  std::vector<MetadataBlocks> metadata;  // superblock, checkpoint, journal
  Reconciliation blocks;
  std::vector<Ino> orphans;  // to be deleted
  KnownMembers members;      // of a shared volume
  Findings findings;
  // A new file system: there is not even a root directory yet.
  bool without_root = false;

  // Metadata blocks of one kind, in no order.
  std::vector<BlockRange> journal_and_checkpoint() const;
};

// The rows that there are, in the table, whatever becomes of them: the first half of recover(). No orphans and no
// `blocks` in the result.
Result<RecoveredVolume> read_rows(VolumeSet& volume, const Superblock& superblock, std::span<const BlockRange> listed,
                                  InodeTable& inodes, const Progress& progress, TreeLoader& loader);

// `inodes` must be empty and is filled. `listed`: the volume's blocks, ascending, maximal. Damage becomes findings.
// Errors: the volume's; EUCLEAN: there is no root directory left, so nothing can be served; `why` then says why.
Result<RecoveredVolume> recover(VolumeSet& volume, const Superblock& superblock, std::span<const BlockRange> listed,
                                InodeTable& inodes, const Progress& progress, std::string* why);

// Makes what was just read the truth for whoever comes next, before anything is built on it or freed by it. Each step
// durable before the next: what the former holder wrote and did not commit, data first; the journal's end, if what is
// behind it is not to be believed; of a set, a commit record of that end and of the boots that its bricks have now.
Status settle(VolumeSet& volume, const RecoveredVolume& recovered);
// The same of a volume that is not to be served: if its copies may differ (VolumeSet::is_settled()), it is read for
// that. What is damaged, or is no file system, has no order that could be kept.
Status settle_unserved(VolumeSet& volume);

}  // namespace brickfs
