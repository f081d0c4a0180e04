// SPDX-License-Identifier: Apache-2.0
// The command line of brickfs: brickfs SOURCE MOUNTPOINT [-o OPT[,OPT]...] [-f].
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "transport/base/result.h"
#include "transport/limits.h"

namespace brickfs {

enum class IoUring { kAuto, kOn, kOff };

struct MountCommand {
  std::string source;
  std::string mountpoint;
  bool foreground = false;

  // -o
  bool read_only = false;
  bool remount = false;  // change the options of a mount that is there
  bool steal = false;
  bool require_durable = false;
  bool soft = false;
  std::chrono::seconds soft_timeout = limits::kSoftTimeout;
  std::chrono::seconds linger{300};  // after an umount, for a brick that is away
  std::string secret_path;
  bool writeback_cache = false;
  bool no_atime = false;
  IoUring io_uring = IoUring::kAuto;
  std::string log_level = "info";
  std::vector<std::string> kernel_options;  // as libfuse takes them: allow_other, nodev ...
};

// One comma-separated list; later ones win. With one line in `why`: EINVAL for what is unknown or has a bad value,
// ENOTSUP for what this build cannot do. Options that are mount(8)'s own business (noauto, x-systemd.automount ...) are
// passed over.
Status parse_mount_options(std::string_view list, MountCommand& command, std::string* why);

}  // namespace brickfs
