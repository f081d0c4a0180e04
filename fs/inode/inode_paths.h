// SPDX-License-Identifier: Apache-2.0
// Paths of some inodes, for people. Threads: one, nobody else uses the table.
#pragma once

#include <cstdint>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "fs/inode/inode_table.h"

namespace brickfs {

// By number, one path for each inode of `wanted` that the root reaches. Looks at every entry of the tree.
absl::flat_hash_map<uint64_t, std::string> paths_of(const InodeTable& inodes,
                                                    const absl::flat_hash_set<uint64_t>& wanted);

}  // namespace brickfs
