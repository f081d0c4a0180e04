// SPDX-License-Identifier: Apache-2.0
// What metadata takes of the heap, reckoned from its shape: near enough for a bound, and the same on each run.
#pragma once

#include <algorithm>
#include <cstddef>

namespace brickfs {

// What malloc() takes for so many bytes (glibc on 64 bits: 8 of its own, in steps of 16, at least 32).
constexpr size_t allocated_bytes(size_t bytes) { return std::max<size_t>(32, (bytes + 8 + 15) / 16 * 16); }

// What an absl B-tree takes for its values: its nodes are two thirds full, those above the leaves a tenth of all.
constexpr size_t tree_bytes(size_t values, size_t value_bytes) { return values * value_bytes * 5 / 3; }

}  // namespace brickfs
