// SPDX-License-Identifier: Apache-2.0
// Makes a sound tree (fs/recovery/tree_check.h) of whatever rows are left. What has no place any more goes to
// /lost+found under its number; only what has no contents goes away. Where file data is on the volume is
// space_repair.h's. Threads: one, nobody else uses the table.
#pragma once

#include "fs/base/finding.h"
#include "fs/base/ids.h"
#include "fs/inode/inode_table.h"

namespace brickfs {

// Behind TreeLoader::end_rows(), before judge(). `time` is given to what is made anew. All that it does goes to
// `repairs`.
void repair_tree(InodeTable& inodes, TimeNs time, Findings& repairs);

}  // namespace brickfs
