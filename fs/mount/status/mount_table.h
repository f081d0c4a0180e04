// SPDX-License-Identifier: Apache-2.0
// The kernel's table of mounts, as this process sees it: proc(5), /proc/PID/mountinfo.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace brickfs {

struct MountEntry {
  std::string device;      // "MAJOR:MINOR", unique among file systems that exist
  std::string root;        // what of the file system is mounted there: "/" is all of it
  std::string mountpoint;  // absolute
  std::string type;        // "fuse.brickfs"
  std::string source;
  bool read_only = false;  // the mount, or all of the file system
  bool no_atime = false;
  std::optional<uid_t> user;  // of FUSE: who has mounted it, as the kernel says
  std::optional<gid_t> group;
};

// In the order in which they were mounted.
std::vector<MountEntry> all_mounts();
// Of the file system with this device number: a bind mount is one more.
std::vector<MountEntry> find_mounts_of(std::string_view device);

// The topmost mount on exactly this path, which is absolute and free of links.
std::optional<MountEntry> find_mount_at(std::string_view path);

// The lists of options that mount(8) keeps in /run/mount/utab for this source and mountpoint: one for each entry.
std::vector<std::string> options_in_utab(std::string_view source, std::string_view mountpoint);

// Nobody serves the FUSE mount there any more.
bool is_dead_mount(const std::string& path);

}  // namespace brickfs
