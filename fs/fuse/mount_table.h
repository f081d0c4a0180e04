// SPDX-License-Identifier: Apache-2.0
// The kernel's table of mounts, as this process sees it: proc(5), /proc/PID/mountinfo.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace brickfs {

struct MountEntry {
  std::string device;      // "MAJOR:MINOR", unique among file systems that exist
  std::string mountpoint;  // absolute
  std::string type;        // "fuse.brickfs"
  std::string source;
  bool read_only = false;  // the mount, or all of the file system
  bool no_atime = false;
};

// The topmost mount on exactly this path, which is absolute and free of links.
std::optional<MountEntry> find_mount_at(std::string_view path);

// Nobody serves the FUSE mount there any more.
bool is_dead_mount(const std::string& path);

}  // namespace brickfs
