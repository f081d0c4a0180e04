// SPDX-License-Identifier: Apache-2.0
// A brickfs that coordinates a shared volume and mounts it nowhere: how it is found on its host. Its command line has
// `none` where others have a mountpoint, and people name it so, or none:PID if there are several. By that name it has
// its socket, too, where a mount's has the number of its device (mount_state.h).
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

namespace brickfs {

constexpr std::string_view kNoMountpoint = "none";
// What its process is called (proc(5), comm): it is not a brickfs that has yet to mount something.
constexpr const char* kNameWithoutMount = "brickfs-none";

std::string name_without_mount(pid_t pid);  // "none:123"
// `none` or such a name.
bool is_name_without_mount(std::string_view text);
// Of those that have a socket, alive or not, ascending. To others than root: none.
std::vector<std::string> names_without_mount();

}  // namespace brickfs
