// SPDX-License-Identifier: Apache-2.0
#include "fs/mount/status/touch_permission.h"

#include <fcntl.h>
#include <poll.h>

#include "fs/mount/status/mount_table.h"

namespace brickfs {

TouchPermission::TouchPermission(std::string mountpoint, std::string device)
    : mountpoint_(std::move(mountpoint)),
      device_(std::move(device)),
      table_(::open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC)) {
  const MutexLock lock(mutex_);
  look();
}

// If another lies over it, or it has been detached, it stays as it was.
void TouchPermission::look() {
  const auto entry = find_mount_at(mountpoint_);
  if (entry && entry->device == device_) may_touch_ = !entry->read_only && !entry->no_atime;
}

// proc_pid_mountinfo(5): POLLPRI after each change, once.
bool TouchPermission::may_touch() {
  MutexLock lock(mutex_);
  pollfd table{.fd = table_.get(), .events = POLLPRI, .revents = 0};
  if (poll(&table, 1, 0) > 0) look();
  return may_touch_;
}

}  // namespace brickfs
