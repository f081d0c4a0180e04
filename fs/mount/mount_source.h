// SPDX-License-Identifier: Apache-2.0
// From the SOURCE of a mount to its open volume, and what is done while that cannot be had yet.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "fs/mount/mount_options.h"
#include "transport/base/result.h"
#include "transport/brick/client_secret.h"
#include "transport/volume/volume_set.h"

namespace brickfs {

// What a mount does about a volume that cannot be had yet: the options `bg` and `retry=`, as of mount.nfs(8). At boot
// the brick's host, or the way to it, may come up later than this one.
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

// Checks the command's SOURCE and makes paths in it and in secret= absolute. EINVAL, with one line in `why`.
Status prepare_source(MountCommand& command, std::string* why);

// The secret that a command names, as it stands in its file whenever it is asked for. Errors as read_secret_file().
Result<ClientSecret> secret_of(const MountCommand& command, std::string* why);

// How a mount wants its volume.
struct VolumeWish {
  std::function<void()> on_commit_wanted;  // VolumeOptions
  ClientId client{};
  std::string client_name;  // as others are told who has it
  bool at_once = false;     // it is not waited for
};

// While the former holder is on its way out (an unmount ends a moment after umount(8) has returned) a held volume is
// tried again; and as long as `retry` says. Errors as VolumeSet::open, with one line in `why`; ENOTSUP: -o durable on a
// volatile brick.
Result<std::unique_ptr<VolumeSet>> open_volume(const MountCommand& command, const VolumeWish& wish, MountRetry& retry,
                                               std::string* why);

}  // namespace brickfs
