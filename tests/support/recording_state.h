// SPDX-License-Identifier: Apache-2.0
// What is on the bricks of a recording medium at some instant, and the events that change it.
//
// A *part* of the image is one brick's, by the addresses of its blocks: the only brick; a brick of a striped set; or,
// in a set with copies, one replica, whose blocks are here under the addresses of a place that is not the one it has in
// the volume. A brick may have several replicas: they die together.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "tests/support/crash_image.h"
#include "transport/brick/brick.h"
#include "transport/membership/set_map.h"
#include "transport/volume/group.h"

namespace brickfs {

struct BrickState {
  static constexpr size_t kMostPlaces = 8;
  size_t places = 1;
  std::array<uint64_t, kMostPlaces> lives{};  // how often each part's brick has died: it has another boot id then

  CrashImage visible;
  // Of a durable brick: what is behind it. Has the committed bytes of all blocks that are visible or whose end is not
  // durable.
  CrashImage stored;
  // Since they were last durable: blocks that a crash may take away, blocks that it may bring back.
  std::set<uint64_t> allocated;
  std::set<uint64_t> freed;

  // Of a set with copies; else null, and each part is a brick. The parts are the map's replicas, in its order.
  std::shared_ptr<const SetMap> map;
  size_t bricks = 1;
  std::array<uint8_t, kMostPlaces> brick_of_part{};
  std::array<uint8_t, kMostPlaces> place_of_part{};  // in the volume

  // Blocks that differ between the two: a new holder is told their number.
  uint64_t suspect_blocks(size_t place = 0) const;
  size_t place_of(uint64_t address) const { return places == 1 ? 0 : brickfs::place_of(group_of(address)); }
  size_t brick_of(uint64_t address) const {
    return map == nullptr ? place_of(address) : brick_of_part[place_of(address)];
  }
  size_t brick_count() const { return map == nullptr ? places : bricks; }
  // What is added to an address of the volume to find it here.
  uint64_t shift_of(size_t part) const { return map == nullptr ? 0 : (part - place_of_part[part]) * kPlaceBytes; }
  // No two bricks, and no two lives of one, have the same.
  BootId boot_of(size_t part) const { return BootId{(lives[part] + 1) * kMostPlaces + part}; }
  uint64_t digest() const;
};

// Of the replica that a part is.
const MapReplica& replica_of(const BrickState& state, size_t part);

struct BrickEvent {
  enum class Kind { kWrite, kAlloc, kFree, kCommit, kDeath, kMap };
  static constexpr uint64_t kNever = UINT64_MAX;

  Kind kind = Kind::kWrite;
  uint64_t begin = 0;  // ticks: no two are equal
  uint64_t end = kNever;
  uint64_t address = 0;  // kWrite
  std::vector<std::byte> bytes;
  BlockRange blocks;                  // kAlloc, kFree
  std::vector<CommitRange> ranges;    // kCommit
  std::set<uint64_t> settled;         // kCommit: blocks whose alloc or free had ended before it began
  size_t place = 0;                   // kCommit; kDeath: the brick
  bool wiped = false;                 // kDeath: it has lost its store, too
  uint64_t seed = 0;                  // kDeath: which of the blocks allocated or freed since are there
  std::shared_ptr<const SetMap> map;  // kMap
};

// Carries out the whole of an event.
void apply(BrickState& state, const BrickEvent& event, bool durable);
// A brick dies and starts again, with what was durable on it, or with nothing.
void let_die(BrickState& state, size_t brick, bool durable, bool wiped, uint64_t seed);

struct BrickLog {
  bool durable = false;
  BrickState before;
  std::vector<BrickEvent> events;  // in the order of their beginning
  uint64_t end = 0;                // tick: nothing happened behind it
};

}  // namespace brickfs
