// SPDX-License-Identifier: Apache-2.0
// The rules that a sound tree keeps, besides those of serving_rules.h: names, links, parents, reachability, sizes,
// limits. Where blocks are is reconcile.h's. Threads: one, nobody else uses the table.
#pragma once

#include "fs/base/finding.h"
#include "fs/inode/inode_table.h"
#include "transport/base/progress.h"

namespace brickfs {

// Every breach is a damage. Those of serving_rules.h are reported by TreeLoader::judge().
void check_tree(const InodeTable& inodes, const Progress& progress, Findings& findings);

}  // namespace brickfs
