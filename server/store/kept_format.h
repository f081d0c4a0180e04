// SPDX-License-Identifier: Apache-2.0
// The bytes of memory that outlives brickd: docs/format.md, "Kept memory". Little-endian.
//
//   0        header, one page
//   4 KiB    summary, two copies of 64 bytes
//   8 KiB    volume records, kStoreVolumes times two copies of 256 bytes
//   520 KiB  block table, one entry of 32 bytes for each frame
//   ...      keys of volumes, kStoreKeys of 64 bytes, right in front of the frames: with kKeptKeyed
//   ...      frames of one block each, the first at the next multiple of kBlockBytes
//
// A record is there if its last word, the checksum, is not 0. That word is written last, in one store, and made 0
// first: so a process that is killed leaves each record whole, or not there.
#pragma once

#include <xxhash.h>

#include <array>
#include <cstddef>
#include <cstdint>

#include "server/store/store_format.h"
#include "transport/base/bytes.h"
#include "transport/brick/block.h"

namespace brickfs {

constexpr std::array<char, 8> kKeptMagic = {'b', 'r', 'i', 'c', 'k', 'm', 'e', 'm'};
constexpr uint32_t kKeptVersion = 1;
constexpr uint64_t kKeptFramesMost = kStoreSlotsMost;
constexpr uint64_t kKeptKeyed = 1;  // incompatible feature: there is room for keys of volumes

struct KeptHeader {
  std::array<char, 8> magic;
  uint32_t version;
  uint32_t block_bytes;
  uint64_t compat_features;    // unknown bits: read and write all the same
  uint64_t incompat_features;  // unknown bits: refuse
  std::array<uint64_t, 2> uuid;
  uint64_t boot;    // BootId of the brick, as long as this memory proves itself
  uint64_t frames;  // of one block each
  uint64_t device;  // of the file: a copy of it is not what brickd left
  uint64_t inode;
  std::array<std::byte, 4096 - 88> reserved;
  uint64_t checksum;  // as kept_checksum(), seed 0
};
static_assert(sizeof(KeptHeader) == 4096 && offsetof(KeptHeader, frames) == 56 &&
              offsetof(KeptHeader, checksum) == 4088);

enum class KeptState : uint32_t {
  kServing = 1,  // a brickd is at work, or ended without a word
  kSealed = 2,   // it ended in order: nothing is written any more
};

// What a change that is under way may have left undone.
enum class KeptChange : uint32_t {
  kNone = 0,
  kBlocks = 1,  // the blocks named are being made or freed: those that are there count for nothing
  kVolume = 2,  // the record of the volume named is being written: either of its copies holds
  kKey = 3,     // the key at the place named is being written or taken away: it holds, or it is not there
};

// The two copies take turns: the one with the higher generation holds.
struct KeptSummary {
  uint64_t generation;  // 1 at first; its copy's place is the rest of its division by 2
  KeptState state;
  KeptChange change;
  uint64_t sum;     // XOR of the checksums of all records that hold, but for what `change` names
  uint32_t volume;  // or the place of a key
  uint32_t reserved;
  uint64_t start;  // of the blocks
  uint64_t count;
  uint64_t unused;
  uint64_t checksum;  // seed: uuid[0]
};
static_assert(sizeof(KeptSummary) == 64 && offsetof(KeptSummary, sum) == 16 && offsetof(KeptSummary, checksum) == 56);

// As StoreVolume, but for the generation. The two copies of a volume take turns as the summary's do.
struct KeptVolume {
  std::array<std::byte, 232> fields;  // StoreVolume's, up to its reserved bytes
  uint64_t generation;
  uint64_t more_fields;  // StoreVolume's behind its reserved bytes
  uint64_t checksum;     // seed: uuid[0] + position + 1
};
static_assert(sizeof(KeptVolume) == sizeof(StoreVolume) && offsetof(KeptVolume, generation) == 232 &&
              offsetof(StoreVolume, reserved) == 232 &&
              offsetof(KeptVolume, more_fields) == offsetof(StoreVolume, keyed) &&
              offsetof(KeptVolume, checksum) == offsetof(StoreVolume, checksum));

// Position in the table = the frame.
struct KeptEntry {
  uint64_t address;  // of the block
  uint32_t volume;   // id
  uint32_t reserved;
  uint64_t content;   // kept_content(): changed by one store while the entry holds, so 0 for the checksum
  uint64_t checksum;  // seed: uuid[1] + position
};
static_assert(sizeof(KeptEntry) == 32 && offsetof(KeptEntry, content) == 16 && offsetof(KeptEntry, checksum) == 24);

constexpr uint64_t kKeptSummariesAt = sizeof(KeptHeader);
constexpr uint64_t kKeptVolumesAt = 2 * sizeof(KeptHeader);
constexpr uint64_t kKeptEntriesAt = kKeptVolumesAt + 2 * kStoreVolumes * sizeof(KeptVolume);
constexpr uint64_t kept_frames_at(uint64_t frames) {
  return round_up(kKeptEntriesAt + frames * sizeof(KeptEntry), kBlockBytes);
}
// Memory whose table leaves no room there has none for keys.
constexpr uint64_t kept_keys_at(uint64_t frames) { return kept_frames_at(frames) - kStoreKeysBytes; }
constexpr bool kept_keys_fit(uint64_t frames) {
  return kKeptEntriesAt + frames * sizeof(KeptEntry) <= kept_keys_at(frames);
}
constexpr uint64_t kept_bytes(uint64_t frames) { return kept_frames_at(frames) + frames * kBlockBytes; }

// The checksum that belongs into `record`: never 0.
template <typename Record>
uint64_t kept_checksum(const Record& record, uint64_t seed) {
  const uint64_t hash = XXH3_64bits_withSeed(&record, offsetof(Record, checksum), seed);
  return hash != 0 ? hash : 1;
}

// What an entry with that checksum says of its frame: `blank`, the block is zeros and the frame may hold anything; else
// the frame holds the block. Nothing else verifies.
inline uint64_t kept_content(uint64_t checksum, bool blank) {
  return XXH3_64bits_withSeed(&checksum, sizeof(checksum), blank ? 1 : 2);
}

}  // namespace brickfs
