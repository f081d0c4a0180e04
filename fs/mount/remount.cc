// SPDX-License-Identifier: Apache-2.0
#include "fs/mount/remount.h"

#include <fmt/core.h>
#include <sys/mount.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "fs/mount/mount_flags.h"
#include "fs/mount/options_in_force.h"
#include "fs/mount/status/mount_table.h"
#include "fs/mount/utab.h"

namespace brickfs {
namespace {

// But for `ro` and `rw`, which are the kernel's here.
Status check_server(const MountCommand& command, std::string* why) {
  const auto mount = find_mount_at(command.mountpoint);
  const auto server = mount ? ask_server(mount->device) : std::nullopt;
  if (!server) return {};
  MountCommand asked = command;
  asked.read_only = true;
  const auto option = not_in_force(asked, server->options);
  if (!option) return {};
  *why = fmt::format("cannot remount {}: its brickfs goes by other options than {} ({}) until umount {}",
                     command.mountpoint, *option, server->options, command.mountpoint);
  return Error(EINVAL, "remount");
}

}  // namespace

Status remount(const MountCommand& command, std::string* why) {
  TRY(check_server(command, why));
  const auto has = [&options = command.kernel_options](const char* name) {
    return std::find(options.begin(), options.end(), name) != options.end();
  };
  unsigned long flags = MS_REMOUNT | mount_flags_of(command);
  if (has("sync")) flags |= MS_SYNCHRONOUS;
  if (has("dirsync")) flags |= MS_DIRSYNC;
  if (::mount(nullptr, command.mountpoint.c_str(), nullptr, flags, nullptr) == 0) {
    if (const auto mount = find_mount_at(command.mountpoint))
      add_to_utab(mount->source, command.mountpoint, command.of_user_space);
    return {};
  }
  const int code = errno;
  *why = fmt::format("cannot remount {}: {}", command.mountpoint, strerror(code));
  return Error(code, "remount");
}

}  // namespace brickfs
