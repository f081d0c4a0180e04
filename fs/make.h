// SPDX-License-Identifier: Apache-2.0
// Tells whether a volume holds a file system, and makes one on a volume that never held any.
//
// Making a file system takes several writes. A *making mark* stands in the superblock's block from before the first
// block beside it is allocated until after the superblock is durable, and it is gone before anything is served. So
// whoever finds the mark and no valid superblock knows that nothing but an interrupted making is there, and makes it
// again. Format: docs/format.md, section "Making mark"; decision table: docs/recovery.md.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "fs/superblock.h"
#include "transport/base/result.h"
#include "transport/volume_client.h"

namespace brickfs {

struct MakingMark {
  static constexpr uint64_t kMagic = 0x534b'4d4b'4b43'5242;  // "BRCKKMKS"
  static constexpr uint64_t kAddress = kBlockBytes - 4096;   // in the superblock's block, behind its slots

  uint64_t magic = kMagic;
  uint64_t reserved[6] = {};
  uint64_t checksum = 0;  // of the 56 bytes before
};
static_assert(sizeof(MakingMark) == 64);

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
  bool marked = false;  // with the making mark
  std::string why;      // one line for people, if kNewer or kRefused
};

// `listed`: the volume's blocks. Errors: the volume's. Reads only.
Result<VolumeHead> read_head(VolumeClient& volume, SuperblockSlots& slots, std::span<const BlockRange> listed);

// Makes an empty file system (not even the root directory's row: the first mount adds it). Precondition: read_head()
// said kUnmade. After an interruption at any point read_head() says kUnmade or kMade. ENOSPC, EDQUOT: less than two
// blocks to be had.
Status make_filesystem(VolumeClient& volume, SuperblockSlots& slots, std::span<const BlockRange> listed, bool marked);

// Durably removes the mark, before the first change is served.
Status remove_making_mark(VolumeClient& volume);

}  // namespace brickfs
