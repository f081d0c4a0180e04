// SPDX-License-Identifier: Apache-2.0
// From the SOURCE of a mount to its open volume: a brick over the network, or one embedded in this process.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "fs/mount/mount_options.h"
#include "fs/mount/mount_retry.h"
#include "transport/base/result.h"
#include "transport/volume/volume_set.h"

namespace brickfs {

// Checks the command's SOURCE and makes paths in it and in secret= absolute. EINVAL, with one line in `why`.
Status prepare_source(MountCommand& command, std::string* why);

// While the former holder is on its way out (an unmount ends a moment after umount(8) has returned) a held volume is
// tried again; and as long as `retry` says. `on_commit_wanted`: VolumeOptions. Errors as VolumeSet::open, with one
// line in `why`; ENOTSUP: -o durable on a volatile brick.
Result<std::unique_ptr<VolumeSet>> open_volume(const MountCommand& command, std::function<void()> on_commit_wanted,
                                               MountRetry& retry, std::string* why);

}  // namespace brickfs
