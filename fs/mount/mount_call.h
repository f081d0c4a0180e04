// SPDX-License-Identifier: Apache-2.0
// How mount(8) runs a file system's helper: mount.brickfs SOURCE MOUNTPOINT [-sfnv] [-N NAMESPACE] [-o OPTIONS] [-t
// TYPE]. That helper is brickfs under another name; its letters mean other things there than on brickfs's own command
// line.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "transport/base/result.h"

namespace brickfs {

struct MountCall {
  std::vector<std::string> words;  // what brickfs's command line would be
  bool fake = false;               // mount -f: all but the mount itself
};

bool is_mount_call(std::string_view program);  // argv[0]

// EINVAL, with a line for people: what mount(8) does not say.
Result<MountCall> parse_mount_call(const std::vector<std::string>& words, std::string* why);

// What mount(8) passes on: 1 for usage, 32 for a mount that failed.
int mount_exit_code(int brickfs_exit_code);

}  // namespace brickfs
