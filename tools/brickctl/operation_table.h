// SPDX-License-Identifier: Apache-2.0
// Counts of operations, for people: their rates, and how long they took.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "fs/mount/status/mount_state.h"

namespace brickfs {

// What was counted between two looks at the same mount. A name that `before` lacks has begun with nothing.
std::vector<OperationState> operations_since(std::span<const OperationState> before,
                                             std::span<const OperationState> now);

// What this part of them (0 to 1) took at most, as far as the buckets tell; 0: there were none.
double quantile_seconds(const OperationState& operation, double part);

enum class SortBy { kName, kTime, kCount, kMean };
void sort_operations(std::vector<OperationState>& operations, SortBy by);

// A line of headings, and one for each that happened at all. `seconds`: in which they were counted. `with_share`: a
// column with each one's part of all their time.
std::string operation_table(std::span<const OperationState> operations, double seconds, bool with_share);

}  // namespace brickfs
