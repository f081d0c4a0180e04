// SPDX-License-Identifier: Apache-2.0
#include "fs/fuse/remount.h"

#include <fmt/core.h>
#include <sys/mount.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace brickfs {

Status remount(const MountCommand& command, std::string* why) {
  constexpr std::pair<const char*, unsigned long> kFlags[] = {{"nodev", MS_NODEV},      {"nosuid", MS_NOSUID},
                                                              {"noexec", MS_NOEXEC},    {"noatime", MS_NOATIME},
                                                              {"sync", MS_SYNCHRONOUS}, {"dirsync", MS_DIRSYNC}};
  unsigned long flags = MS_REMOUNT;
  if (command.read_only) flags |= MS_RDONLY;
  for (const auto& [name, flag] : kFlags) {
    const auto& options = command.kernel_options;
    if (std::find(options.begin(), options.end(), name) != options.end()) flags |= flag;
  }
  if (mount(nullptr, command.mountpoint.c_str(), nullptr, flags, nullptr) == 0) return {};
  const int code = errno;
  *why = fmt::format("cannot remount {}: {}", command.mountpoint, strerror(code));
  return Error(code, "remount");
}

}  // namespace brickfs
