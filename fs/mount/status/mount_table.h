// SPDX-License-Identifier: Apache-2.0
// What the kernel tells of mounts.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "transport/base/mutex.h"
#include "transport/base/unique_fd.h"

namespace brickfs {

// The kernel's table of mounts, as this process sees it: proc(5), /proc/PID/mountinfo.
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

// Whether reading may change times: not while the mount is read-only or has noatime, which a remount changes and nobody
// tells a FUSE file system of. What bind mounts of it say cannot be known.
//
// Threads: any.
class TouchPermission {
 public:
  // Of a mount that is there; `device`: its MountEntry's.
  TouchPermission(std::string mountpoint, std::string device);

  // Reads the table of mounts if that has changed.
  bool may_touch();

 private:
  void look() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string mountpoint_;
  const std::string device_;
  const UniqueFd table_;  // which says when it changes
  Mutex mutex_;
  bool may_touch_ ABSL_GUARDED_BY(mutex_) = true;
};

// How many requests of the mount with that device number ("0:57") the kernel has, sent or not, that are not answered. 0
// also where nobody tells: without /sys/fs/fuse.
uint64_t waiting_requests(const std::string& device);

}  // namespace brickfs
