// SPDX-License-Identifier: Apache-2.0
// How the addresses of a volume are shared out between the bricks of its set (docs/sets.md). A *group* is 2^40 bytes of
// addresses, the unit by which a set routes. A *place* is a brick's number in the set: 0 holds the metadata and
// whatever a volume of one brick has.
//
// In a striped set each place has a fixed run of groups. So nothing has to be stored to know which brick a block is on,
// and a volume of one brick, which begins at address 0, becomes place 0 as it is.
#pragma once

#include <cstddef>
#include <cstdint>

#include "transport/brick/block.h"

namespace brickfs {

enum class Group : uint64_t {};

constexpr unsigned kGroupShift = 40;
constexpr uint64_t kGroupsPerPlace = uint64_t{1} << 17;
constexpr uint64_t kPlaceBytes = kGroupsPerPlace << kGroupShift;

constexpr Group group_of(uint64_t volume_address) { return Group{volume_address >> kGroupShift}; }
constexpr size_t place_of(Group group) { return static_cast<uint64_t>(group) / kGroupsPerPlace; }

// The first block of a place. On place 0 it is the superblock's; on every other it has the member's mark.
constexpr BlockRange first_block_of(size_t place) { return {BlockAddress{place * kPlaceBytes}, 1}; }

}  // namespace brickfs
