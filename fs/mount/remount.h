// SPDX-License-Identifier: Apache-2.0
// mount -o remount: mount(8) leaves it to the program, as it leaves mounting.
#pragma once

#include <string>

#include "fs/mount/mount_options.h"
#include "transport/base/result.h"

namespace brickfs {

// Changes what the kernel keeps of a mount (ro, nosuid, noexec ...) to what the command says. The brickfs that serves
// it goes on as it was: of a mount that was made read-only this makes no other. EINVAL: other options of that brickfs
// are named than it goes by. With one line in `why`.
Status remount(const MountCommand& command, std::string* why);

}  // namespace brickfs
