// SPDX-License-Identifier: Apache-2.0
// Compares what metadata refers to with the blocks that the brick lists. Changes nothing: the mount frees what is
// leaked. Threads: one, before the inode table is shared.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "fs/base/block_ranges.h"
#include "fs/base/finding.h"
#include "fs/inode/inode_table.h"
#include "transport/brick/block.h"

namespace brickfs {

// Blocks that are not file data.
struct MetadataBlocks {
  BlockRange blocks;
  const char* what = "";  // "superblock", "journal", "checkpoint"
};

// A run of units in use and by whom.
struct UsedRun {
  UnitRun run;
  Ino ino{};                       // a file, or
  const char* metadata = nullptr;  // what else

  std::string owner() const;
};

struct Reconciliation {
  std::vector<BlockRange> kept;    // listed and referred to, ascending, maximal
  std::vector<BlockRange> leaked;  // listed, referred to by nothing
  std::vector<UsedRun> file_runs;  // all extents, ascending
};

// Damage goes to `findings`: units used twice, and blocks referred to that are not listed.
// `listed`: ascending, maximal (VolumeSet::list).
Reconciliation reconcile(const InodeTable& inodes, std::span<const MetadataBlocks> metadata,
                         std::span<const BlockRange> listed, Findings& findings);

}  // namespace brickfs
