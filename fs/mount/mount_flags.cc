// SPDX-License-Identifier: Apache-2.0
#include "fs/mount/mount_flags.h"

#include <fmt/core.h>
#include <sys/mount.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "fs/mount/mount_program.h"
#include "fs/mount/status/brickfs_end.h"
#include "fs/mount/status/mount_table.h"

namespace brickfs {

namespace {

constexpr unsigned long kNoSymlinks = 256;  // MS_NOSYMFOLLOW, which glibc's header came to have later

struct FlagWord {
  std::string_view word;
  unsigned long flag;
  bool sets;
};
constexpr FlagWord kWords[] = {
    {"dev", MS_NODEV, false},      {"nodev", MS_NODEV, true},         {"suid", MS_NOSUID, false},
    {"nosuid", MS_NOSUID, true},   {"exec", MS_NOEXEC, false},        {"noexec", MS_NOEXEC, true},
    {"noatime", MS_NOATIME, true}, {"symfollow", kNoSymlinks, false}, {"nosymfollow", kNoSymlinks, true}};

}  // namespace

unsigned long mount_flags_of(const MountCommand& command) {
  unsigned long flags = command.read_only ? MS_RDONLY : 0;
  for (const std::string& option : command.mount_flags) {
    for (const auto& [word, flag, sets] : kWords) {
      if (option == word) flags = sets ? flags | flag : flags & ~flag;
    }
  }
  return flags;
}

Status set_mount_flags(const std::string& mountpoint, unsigned long flags, std::string* why) {
  if (::mount(nullptr, mountpoint.c_str(), nullptr, MS_REMOUNT | MS_BIND | flags, nullptr) == 0) return {};
  const int code = errno;
  *why = fmt::format("cannot set the options of the mount at {}: {}", mountpoint, strerror(code));
  return Error(code, "flags of a mount");
}

Status add_mount_flags(const MountCommand& command, std::string* why) {
  const unsigned long flags = mount_flags_of(command);
  return (flags & kNoSymlinks) == 0 ? Status() : set_mount_flags(command.mountpoint, flags, why);
}

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
