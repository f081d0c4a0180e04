// SPDX-License-Identifier: Apache-2.0
// Ascending ranges of blocks that do not overlap, as VolumeSet::list() gives them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "transport/brick/block.h"

namespace brickfs {

bool contains(std::span<const BlockRange> ranges, BlockAddress block);
// The ranges of `from` without those of `without`.
std::vector<BlockRange> subtract(std::span<const BlockRange> from, std::span<const BlockRange> without);
// The ranges of `from` that are in `with`, too.
std::vector<BlockRange> intersect(std::span<const BlockRange> from, std::span<const BlockRange> with);
uint64_t count_blocks(std::span<const BlockRange> ranges);

}  // namespace brickfs
