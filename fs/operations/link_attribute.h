// SPDX-License-Identifier: Apache-2.0
// What a mount says of itself, as an extended attribute of the root: not stored, not listed, read-only.
// docs/operations.md
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "fs/operations/file_operations.h"

namespace brickfs {

constexpr std::string_view kLinkAttribute = "brickfs.link";

// The path by which the brick is reached ("tcp"), or "silent: ...", "waiting: brick unreachable: ...", "failed: ...";
// and what ails its store, as it was a moment ago. Waits for nothing.
std::vector<std::byte> describe_link(FileOperations& files);

}  // namespace brickfs
