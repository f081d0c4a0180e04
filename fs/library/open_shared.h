// SPDX-License-Identifier: Apache-2.0
// The option `shared` of brickfs_fs_open(): this process is a member of who has the volume, or the first, and
// coordinates it. As a mount with `shared`, by the same means (fs/served/served_volume.h).
#pragma once

#include <string>

#include "fs/library/open_fs.h"
#include "transport/base/result.h"

namespace brickfs::library {

// Errors as ServedVolume::open(), with one line in `why`.
Result<brickfs_fs::Shared> open_shared(const OpenPlan& plan, std::string* why);

}  // namespace brickfs::library
