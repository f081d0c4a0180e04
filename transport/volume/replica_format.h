// SPDX-License-Identifier: Apache-2.0
// What a replica of a place keeps in the first block of the place: docs/format.md, section "Copies". Little-endian.
//
// The *mark*, two slots, says whose replica it is and which generation of the map it has seen. The
// *activity log* has rows that name the blocks that may be being written: after a crash of the client the replicas may
// differ there, and nowhere else. The *dirty bitmap* says what others have missed that are not in sync.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "transport/volume/set_format.h"

namespace brickfs {

constexpr size_t kActivityRows = 4096;  // of the activity log
// Offsets in the first block of the place, below what a striped set keeps there.
constexpr uint64_t kActivityLogOffset = kCommitRecordAddress[0] - 64 * kKiB;
constexpr uint64_t kActivityLogBytes = kActivityRows * sizeof(uint64_t);
constexpr uint64_t kReplicaMarkOffset = kActivityLogOffset + kActivityLogBytes;
constexpr uint64_t kReplicaMarkSlotBytes = 4096;
// A header, and a byte for each block: 512 GiB of a place. Blocks that are so far apart share one.
constexpr uint64_t kBitmapHeaderBytes = 4096;
constexpr uint64_t kBitmapBlocks = kBlockBytes / 8;
constexpr uint64_t kBitmapOffset = kActivityLogOffset - kBitmapBlocks - kBitmapHeaderBytes;
// All that is a replica's own, and no part of the volume: bitmap, rows, mark, and, of place 0, the commit records,
// which go with the commits of each. Those are copied once, when it is brought back.
constexpr uint64_t kReplicaAreaOffset = kBitmapOffset;
constexpr uint64_t kReplicaAreaEnd = kCommitRecordAddress[1] + kSetSlotBytes;

// Commit records are a replica's own, too (VolumeSet): each has as many as its brick has commits. From here on to the
// end of the block all replicas have the same.
constexpr uint64_t kCommonAgainOffset = kMemberTableAddress[0];

// A row: the address of a block that is active, plus 1; 0: none.

constexpr uint64_t kHasNothing = 0;  // a mark's generation: the replica has begun, and has nothing of the place yet

struct StoredReplicaMark {
  static constexpr uint64_t kMagic = 0x3150'4552'4b43'5242;  // "BRCKREP1"

  uint64_t magic = kMagic;
  SetId set{};
  MemberId replica{};
  uint64_t place = 0;
  uint64_t generation = 0;  // of the map; the higher one of two that verify holds
  uint64_t checksum = 0;    // xxh3-64 of the 56 bytes before, not seeded
};
static_assert(sizeof(StoredReplicaMark) == 64 && offsetof(StoredReplicaMark, checksum) == 56);
static_assert(std::has_unique_object_representations_v<StoredReplicaMark>);
static_assert(kReplicaMarkOffset + 2 * kReplicaMarkSlotBytes <= kCommitRecordAddress[0]);

// Of the dirty bitmap. The byte of a block is 1: it may have been written, or allocated, since.
struct StoredBitmapHeader {
  static constexpr uint64_t kMagic = 0x3153'494d'4b43'5242;  // "BRCKMIS1"

  uint64_t magic = kMagic;
  SetId set{};
  uint64_t place = 0;
  uint64_t number = 0;    // random; the map has it where a replica's bitmap is this one
  uint64_t checksum = 0;  // xxh3-64 of the 40 bytes before, not seeded
};
static_assert(sizeof(StoredBitmapHeader) == 48 && offsetof(StoredBitmapHeader, checksum) == 40);
static_assert(std::has_unique_object_representations_v<StoredBitmapHeader>);

}  // namespace brickfs
