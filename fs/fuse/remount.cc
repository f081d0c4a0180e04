// SPDX-License-Identifier: Apache-2.0
#include "fs/fuse/remount.h"

#include <fmt/core.h>
#include <sys/mount.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "fs/fuse/mount_flags.h"

namespace brickfs {

Status remount(const MountCommand& command, std::string* why) {
  const auto has = [&options = command.kernel_options](const char* name) {
    return std::find(options.begin(), options.end(), name) != options.end();
  };
  unsigned long flags = MS_REMOUNT | mount_flags_of(command);
  if (has("sync")) flags |= MS_SYNCHRONOUS;
  if (has("dirsync")) flags |= MS_DIRSYNC;
  if (::mount(nullptr, command.mountpoint.c_str(), nullptr, flags, nullptr) == 0) return {};
  const int code = errno;
  *why = fmt::format("cannot remount {}: {}", command.mountpoint, strerror(code));
  return Error(code, "remount");
}

}  // namespace brickfs
