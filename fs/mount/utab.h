// SPDX-License-Identifier: Apache-2.0
// What mount(8), umount(8) and systemd know of a mount beside the kernel's table, in /run/mount/utab: options of their
// own (_netdev, x-..., user), that umount(8) runs our helper (tools/umount), and ours that the kernel does not show.
// mount(8) writes it, and only if the program that it runs for a type has not.
#pragma once

#include <string>
#include <vector>

#include "transport/base/result.h"

namespace brickfs {

// If this is root. `source`: as the kernel's table of mounts has it. `options`: of which mount(8) takes what is of use
// later. `in_force`: what the serving brickfs goes by (describe_common_options()), for people to see. The helper is
// told if it is installed. What a former mount of that source has left there goes.
void register_in_utab(const std::string& source, const std::string& mountpoint, std::vector<std::string> options,
                      const std::string& in_force);

// Adds to what is there what it has not.
void add_to_utab(const std::string& source, const std::string& mountpoint, const std::vector<std::string>& options);

// Runs a program of the system, without a word, to its end.
Status run_quietly(std::vector<std::string> words);

}  // namespace brickfs
