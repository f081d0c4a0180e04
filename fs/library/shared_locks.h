// SPDX-License-Identifier: Apache-2.0
// Locks of an open file of a shared volume: kept where its tree is, so that they hold between machines. This process is
// a machine of its own there.
//
// Threads: any.
#pragma once

#include <optional>

#include "fs/library/file_locks.h"
#include "fs/library/open_fs.h"
#include "transport/base/result.h"

namespace brickfs::library {

// As FileLocks::lock(); without a mode: unlocks. EDEADLK: who has it waits for this one.
Status set_shared_lock(brickfs_file& file, FileLocks::Space space, FileLocks::Range range,
                       std::optional<FileLocks::Mode> mode, FileLocks::Patience patience);
// Whether another open file has a lock that stands against it, on whatever machine.
Result<bool> is_locked_by_another(brickfs_file& file, FileLocks::Range range, FileLocks::Mode mode);

}  // namespace brickfs::library
