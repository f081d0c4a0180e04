// SPDX-License-Identifier: Apache-2.0
// What a mount does about a volume that cannot be had yet: the options `bg` and `retry=`, as of mount.nfs(8). At boot
// the brick's host, or the way to it, may come up later than this one.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "fs/mount/mount_options.h"
#include "transport/base/result.h"

namespace brickfs {

class MountRetry {
 public:
  // `to_background` is called with the first reason, on a mount with `bg`: whoever asked for the mount need not wait
  // any longer.
  MountRetry(const MountCommand& command, std::function<void(const std::string& why)> to_background);

  // After a try that failed; waits for the next one. False: `why` is final, which it is too once something is mounted
  // at the mountpoint, or this host has mounted the volume elsewhere.
  bool wait(const Error& error, std::string* why);

 private:
  using Clock = std::chrono::steady_clock;

  const MountCommand& command_;
  const std::function<void(const std::string& why)> to_background_;
  const Clock::time_point until_;
  Clock::duration pause_;
  bool first_ = true;
};

}  // namespace brickfs
