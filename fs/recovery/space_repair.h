// SPDX-License-Identifier: Apache-2.0
// Makes the extents of a damaged volume's files sound (fs/recovery/reconcile.h): each unit in one file, on a block that
// the brick has, and not in metadata. Threads: one.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "fs/base/finding.h"
#include "fs/inode/extent_map.h"
#include "fs/inode/inode_table.h"
#include "fs/recovery/reconcile.h"
#include "fs/space/space.h"
#include "transport/base/result.h"
#include "transport/volume/volume_set.h"

namespace brickfs {

// A file's data that another file has as well; not in the file's map any more.
struct SharedData {
  Ino ino{};
  Extent extent;
};

// Takes from the files what they cannot have. Lost data becomes a hole; what two files have stays with one of them and
// is returned, to be copied for the other. `listed`: ascending. All that it does goes to `repairs`.
std::vector<SharedData> take_impossible_extents(InodeTable& inodes, std::span<const MetadataBlocks> metadata,
                                                std::span<const BlockRange> listed, Findings& repairs);

// Gives each file its own copy, on units from `space`, as far as there is room; else a hole. Errors: the volume's.
Status copy_shared_data(VolumeSet& volume, Space& space, InodeTable& inodes, std::span<const SharedData> shared,
                        Findings& repairs);

}  // namespace brickfs
