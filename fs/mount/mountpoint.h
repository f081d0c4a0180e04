// SPDX-License-Identifier: Apache-2.0
// Where a mount is to be, and /dev/fuse: what is looked at before anything is opened.
#pragma once

#include <string>

#include "fs/mount/mount_options.h"
#include "transport/base/result.h"

namespace brickfs {

// Makes command.mountpoint absolute. A dead brickfs mount there is no obstacle. ENOENT, ENOTDIR, EBUSY (something is
// mounted there), or /dev/fuse is missing or forbidden; with one line in `why`.
Status prepare_mountpoint(MountCommand& command, std::string* why);
// Clears away the dead mounts there. Only when everything is ready to be mounted in their place: nobody is to find the
// directory below, and a mount that fails leaves them. EBUSY.
Status clear_dead_mounts(const std::string& mountpoint, std::string* why);

}  // namespace brickfs
