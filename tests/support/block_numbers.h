// SPDX-License-Identifier: Apache-2.0
// Blocks by their number.
#pragma once

#include <cstdint>

#include "transport/brick/block.h"

namespace brickfs::testing {

constexpr BlockAddress block_number(uint64_t number) { return BlockAddress{number * kBlockBytes}; }
constexpr BlockRange blocks(uint64_t first, uint64_t count = 1) { return {block_number(first), count}; }

}  // namespace brickfs::testing
