// SPDX-License-Identifier: Apache-2.0
// The mark in the superblock's block, behind its slots: says in what state the volume was left. Format: docs/format.md,
// section "Mark"; what follows from it: docs/recovery.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "transport/base/result.h"
#include "transport/brick/block.h"
#include "transport/volume/volume_set.h"

namespace brickfs {

enum class Mark : uint64_t {
  kNone = 0,
  kMaking = 1,  // a file system is being made, nothing was ever served: see fs/recovery/make.h
  kClean = 2,   // unmounted to the end: nothing is to be settled. Gone before the next mount changes anything else
};

struct StoredMark {
  static constexpr uint64_t kMagic = 0x314b'524d'4b43'5242;  // "BRCKMRK1"
  static constexpr uint64_t kAddress = kBlockBytes - 4096;

  uint64_t magic = kMagic;
  uint64_t mark = 0;
  uint64_t reserved[5] = {};
  uint64_t checksum = 0;  // xxh3-64 of the 56 bytes before, not seeded
};
static_assert(sizeof(StoredMark) == 64);

// What stands in the superblock's block; kNone for anything that does not verify. Errors: the volume's.
Result<Mark> read_mark(VolumeSet& volume);
// Durable when it returns. kNone: zeros.
Status write_mark(VolumeSet& volume, Mark mark);

}  // namespace brickfs
