// SPDX-License-Identifier: Apache-2.0
// Repair of one inode by itself: its type, what fits it, a link's size, attributes. Its place in the tree is
// tree_repair.h's. Threads: one, nobody else uses the inode.
#pragma once

#include "fs/base/finding.h"
#include "fs/base/ids.h"
#include "fs/inode/inode.h"

namespace brickfs {

// An inode whose row is lost becomes what its other rows say: a directory of its entries, a file of its extents. False:
// there is nothing in it to keep. What is done goes to `repairs`.
bool salvage_inode(Inode& inode, TimeNs time, Findings& repairs);

// Everything but the number and the kernel's references.
void move_contents(Inode& from, Inode& to);

}  // namespace brickfs
