// SPDX-License-Identifier: Apache-2.0
// What the kernel keeps of one mount, and not of the file system that it shows: nodev, nosuid, noexec, noatime,
// nosymfollow, ro.
#pragma once

#include <string>

#include "fs/mount/mount_options.h"
#include "transport/base/result.h"

namespace brickfs {

// Flags of mount(2).
unsigned long mount_flags_of(const MountCommand& command);
// Gives a mount that is there these flags, and no others; the file system, and other mounts of it, stay as they are.
// With one line in `why`.
Status set_mount_flags(const std::string& mountpoint, unsigned long flags, std::string* why);
// Of those that libfuse does not know. EPERM: this is not root.
Status add_mount_flags(const MountCommand& command, std::string* why);

// mount -o remount: mount(8) leaves it to the program, as it leaves mounting.
//
// Changes what the kernel keeps of a mount (ro, nosuid, noexec ...) to what the command says. The brickfs that serves
// it goes on as it was: of a mount that was made read-only this makes no other. EINVAL: other options of that brickfs
// are named than it goes by. With one line in `why`.
Status remount(const MountCommand& command, std::string* why);

}  // namespace brickfs
