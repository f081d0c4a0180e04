// SPDX-License-Identifier: Apache-2.0
// What clients did to a brick, when, and what they were answered; and whether a store that a power loss left at some
// moment is one that the brick interface (transport/brick/brick.h, commit()) allows. Moments are places in the log of
// the store's disk, with an order among those at one place.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "transport/brick/block.h"

namespace brickfs {

constexpr size_t kNever = SIZE_MAX;
constexpr size_t kStoreVolumesUsed = 2;
constexpr size_t kStoreBlocksUsed = 4;  // of each volume, from its address 0 on
// Clients write whole sectors here, each a stamp; all else of a block stays zero.
constexpr std::array<uint64_t, 3> kStampOffsets = {0, 4096, kBlockBytes - 512};
constexpr size_t kStamps = kStampOffsets.size();
constexpr uint64_t kStampBytes = 512;
constexpr uint64_t kNoStamp = UINT64_MAX;  // neither zeros nor one stamp

struct StampWrite {
  uint64_t value = 0;  // no other write has it
  size_t at = 0;
  size_t stored_at = kNever;  // from then on the store may get it by other ways than a commit
};

// A block from an alloc to its free.
struct BlockLife {
  size_t alloc_began = 0;
  size_t alloc_ended = kNever;
  size_t free_began = kNever;
  size_t free_ended = kNever;
  std::array<std::vector<StampWrite>, kStamps> writes;
};

struct StampCommit {
  struct Named {
    size_t block = 0;
    size_t life = 0;
    size_t stamp = 0;
    size_t writes = 0;   // so many had been done when the commit began
    uint32_t round = 0;  // ranges of a later one are durable only after those of this
  };
  size_t began = 0;
  size_t over = kNever;  // it has returned
  bool done = false;     // ... with success
  bool at_once = false;  // all of it is in the store, or none
  std::vector<Named> named;
};

struct FoundBlock {
  bool exists = false;
  std::array<uint64_t, kStamps> stamps{};  // 0: zeros
};
using FoundBlocks = std::array<FoundBlock, kStoreBlocksUsed>;

struct VolumeHistory {
  std::array<std::vector<BlockLife>, kStoreBlocksUsed> blocks;
  std::vector<StampCommit> commits;
  std::vector<std::pair<size_t, uint64_t>> epochs;  // granted, and when the holder knew

  bool exists(size_t block) const;
  // Whether what judge() allows may differ between two moments.
  bool changes_between(size_t before, size_t now) const;
  // A commit of everything there is, that has just begun.
  StampCommit commit_of_all(size_t now) const;
  // A block is unmapped.
  void note_stored(size_t block, size_t now);
  // Empty, or what a power loss at `now` must not have left.
  std::string judge(const FoundBlocks& found, size_t now) const;
  std::string judge_epoch(uint64_t found, size_t now) const;
  // All that is found, as something that holds from `now` on.
  static VolumeHistory that_begins_with(const FoundBlocks& found, uint64_t epoch, size_t now);
};

// A volume that comes and goes, as an administrator has it.
struct SpareVolume {
  bool exists = false;
  uint64_t size_blocks = 0;
  uint64_t used_blocks = 0;
  bool operator==(const SpareVolume&) const = default;
};

struct SpareHistory {
  struct Change {
    size_t began = 0;
    size_t ended = kNever;  // it is lasting from then on; kNever: nobody knows
    SpareVolume makes;
  };
  std::vector<Change> changes{{.began = 0, .ended = 0, .makes = {}}};

  const SpareVolume& last() const { return changes.back().makes; }
  bool changes_between(size_t before, size_t now) const;
  // Empty, or what a power loss at `now` must not have left.
  std::string judge(const SpareVolume& found, size_t now) const;
};

struct StoreHistory {
  static constexpr size_t kOrderBits = 24;
  // The next one at this place of the log; the last one.
  size_t moment(size_t place) { return place << kOrderBits | ++order_; }
  static size_t end_of(size_t place) { return (place + 1) << kOrderBits; }

  std::array<VolumeHistory, kStoreVolumesUsed> volumes;
  SpareHistory spare;

 private:
  size_t order_ = 0;
};

}  // namespace brickfs
