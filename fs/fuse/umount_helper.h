// SPDX-License-Identifier: Apache-2.0
// That umount(8) runs our helper (tools/umount) for a mount.
#pragma once

#include <string>
#include <vector>

#include "transport/base/result.h"

namespace brickfs {

// If the helper is installed and this is root. `source`: as the kernel's table of mounts has it.
void register_umount_helper(const std::string& source, const std::string& mountpoint);

// Runs a program of the system, without a word, to its end.
Status run_quietly(std::vector<std::string> words);

}  // namespace brickfs
