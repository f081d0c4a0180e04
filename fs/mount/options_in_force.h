// SPDX-License-Identifier: Apache-2.0
// The options that the serving brickfs of a mount goes by, which it keeps until it ends: who asks for the same file
// system once more, or for other options (remount), learns whether it has them.
#pragma once

#include <optional>
#include <string>

#include "fs/mount/mount_options.h"
#include "fs/mount/status/umount_report.h"

namespace brickfs {

// What the serving brickfs says of itself. `device`: of the mount, "MAJOR:MINOR". Nothing: there is none, or it does
// not answer.
std::optional<UmountReport> ask_server(const std::string& device);

// The first option that the command names and the serving brickfs does not go by. `options`: describe_common_options(),
// as it says.
std::optional<std::string> not_in_force(const MountCommand& command, const std::string& options);

}  // namespace brickfs
