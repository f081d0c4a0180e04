// SPDX-License-Identifier: Apache-2.0
// Whether reading may change times: not while the mount is read-only or has noatime, which a remount changes and nobody
// tells a FUSE file system of. What bind mounts of it say cannot be known.
//
// Threads: any.
#pragma once

#include <string>

#include "transport/base/mutex.h"
#include "transport/base/unique_fd.h"

namespace brickfs {

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

}  // namespace brickfs
