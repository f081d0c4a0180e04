// SPDX-License-Identifier: Apache-2.0
#include "fs/mount/mount_flags.h"

#include <fmt/core.h>
#include <sys/mount.h>

#include <cerrno>
#include <cstring>
#include <string_view>

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

}  // namespace brickfs
