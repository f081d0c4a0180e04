// SPDX-License-Identifier: Apache-2.0
// Tells whether a volume holds a file system, and makes one on a volume that never held any.
//
// Making a file system takes several writes. The mark "making" stands from before the first block beside the
// superblock's is allocated until after the superblock is durable, and it is gone before anything is served. So whoever
// finds it and no valid superblock knows that nothing but an interrupted making is there, and makes it again. Decision
// table: docs/recovery.md.
#pragma once

#include <span>
#include <string>

#include "fs/persistence/superblock.h"
#include "fs/persistence/volume_mark.h"
#include "transport/base/result.h"
#include "transport/volume/volume_set.h"

namespace brickfs {

// What the superblock's block says.
struct VolumeHead {
  enum class Kind {
    kUnmade,   // no file system was ever served from here
    kMade,     // `superblock` is valid
    kNewer,    // by a program newer than this one
    kRefused,  // blocks, but no file system that can be read
  };
  Kind kind = Kind::kUnmade;
  SuperblockRead superblock;
  Mark mark = Mark::kNone;
  std::string why;  // one line for people, if kNewer or kRefused
};

// `listed`: the volume's blocks. Errors: the volume's. Reads only.
Result<VolumeHead> read_head(VolumeSet& volume, SuperblockSlots& slots, std::span<const BlockRange> listed);

// Makes an empty file system (not even the root directory's row: the first mount adds it). Precondition: read_head()
// said kUnmade. After an interruption at any point read_head() says kUnmade or kMade. ENOSPC, EDQUOT: less than two
// blocks to be had.
Status make_filesystem(VolumeSet& volume, SuperblockSlots& slots, std::span<const BlockRange> listed);

}  // namespace brickfs
