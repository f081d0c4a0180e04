// SPDX-License-Identifier: Apache-2.0
// Whether a brick's volume is a file system's, or the part of one that a set keeps on this brick: blocks that nobody
// writes to who does not know it. It is known by what the first block of a place begins with: docs/format.md.
#pragma once

#include "transport/base/result.h"
#include "transport/brick/brick.h"

namespace brickfs {

// By a copy of the superblock, a member's mark or a replica's, whole or damaged. `brick` has a session that may map
// blocks; those that are looked at are unmapped again. Errors: the brick's.
Result<bool> has_files(Brick& brick);

}  // namespace brickfs
