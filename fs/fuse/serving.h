// SPDX-License-Identifier: Apache-2.0
// The life of a mount: from the open volume to the end of the last request, and what is left to do then.
#pragma once

#include <functional>
#include <string>

#include "fs/fuse/mount_options.h"
#include "transport/base/result.h"

namespace brickfs {

// Mounts and serves until the mount is taken away (umount) or a signal asks for an end. `ready` is called once it
// serves. An error with one line in `why`: before `ready` nothing is mounted; after it, not everything has reached the
// brick.
//
// How it ends. After umount(8) everything is brought to the brick, for however long the brick is away (as with a `hard`
// mount's operations); a signal makes that a matter of seconds.
Status serve_mount(MountCommand command, const std::function<void()>& ready, std::string* why);

}  // namespace brickfs
