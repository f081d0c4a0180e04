// SPDX-License-Identifier: Apache-2.0
// The life of a mount: from the open volume to the end of the last request, and what is left to do then.
#pragma once

#include <functional>
#include <string>

#include "fs/mount/mount_options.h"
#include "transport/base/result.h"

namespace brickfs {

// Told from the thread that serves.
struct MountEvents {
  std::function<void()> ready;  // it serves
  std::function<void(const std::string& why)>
      waiting;  // before that, of a mount with `bg`: it is not mounted yet, and tried again
};

// Mounts and serves until the mount is taken away (umount) or a signal asks for an end. An error with one line in
// `why`: before it was ready nothing is mounted; after that, not everything has reached the brick.
//
// How it ends. After umount(8) everything is brought to the brick, for however long the brick is away (as with a `hard`
// mount's operations); a signal makes that a matter of seconds.
Status serve_mount(MountCommand command, const MountEvents& events, std::string* why);

}  // namespace brickfs
