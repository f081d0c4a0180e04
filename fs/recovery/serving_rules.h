// SPDX-License-Identifier: Apache-2.0
// What a tree must be like for operations to keep it so: the part of its soundness that a mount looks at, as it costs
// one look at each entry. tree_check.h has the rest.
#pragma once

#include "fs/base/finding.h"
#include "fs/inode/inode_table.h"

namespace brickfs {

// Of inodes that TreeLoader::judge() has left. Any damage found has the volume mounted read-only.
void judge_for_serving(const InodeTable& inodes, Findings& findings);

}  // namespace brickfs
