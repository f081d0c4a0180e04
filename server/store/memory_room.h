// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace brickfs {

// What this process may still take without pressing others: the machine's available memory, or less if a control group
// (version 2) of it allows less. 0: cannot be told.
uint64_t memory_room_bytes();
// What it could have at most, if nobody else had any: the machine's memory and swap space, or less, as above.
uint64_t memory_most_bytes();

}  // namespace brickfs
