// SPDX-License-Identifier: Apache-2.0
// What mount(8) knows of a mount and does not tell the program that it runs for its type: options that begin with x-.
// Where such a program writes to /run/mount/utab itself (utab.h), mount(8) does not, and they would be lost.
#pragma once

#include <string>
#include <vector>

namespace brickfs {

// As they stand in the command line of the mount(8) that runs this process, or in its fstab. `source`, `mountpoint`: as
// it was told them. None, if it was run by another program.
std::vector<std::string> options_mount_keeps(const std::string& source, const std::string& mountpoint);

}  // namespace brickfs
