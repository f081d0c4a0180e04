// SPDX-License-Identifier: Apache-2.0
#include "fs/mount/mountpoint.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "fs/mount/status/mount_table.h"
#include "transport/base/log.h"
#include "transport/base/unique_fd.h"

namespace brickfs {
namespace {

constexpr const char* kDevice = "/dev/fuse";
constexpr const char* kType = "fuse.brickfs";
constexpr int kStackedMounts = 64;  // dead mounts on top of each other that are cleared away

Error refuse(std::string* why, int code, std::string text) {
  *why = std::move(text);
  return Error(code, "mountpoint");
}

Status check_device(std::string* why) {
  const UniqueFd device(::open(kDevice, O_RDWR | O_CLOEXEC));
  if (device) return {};
  switch (errno) {
    case ENOENT:
    case ENODEV:
    case ENXIO:
      return refuse(
          why, ENODEV,
          "there is no /dev/fuse here: run modprobe fuse, or pass the device to the container (--device /dev/fuse)");
    case EACCES:
    case EPERM:
      return refuse(why, EACCES, "/dev/fuse may not be opened: run as root, or allow this user or container to use it");
    default:
      return refuse(why, errno, fmt::format("cannot open /dev/fuse: {}", strerror(errno)));
  }
}

bool is_empty(const std::string& directory) {
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(::opendir(directory.c_str()), ::closedir);
  if (!entries) return false;
  while (const dirent* const entry = readdir(entries.get())) {
    if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) return false;
  }
  return true;
}

// Of a dead mount. Only root takes away what another process has mounted.
Status check_clearable(const std::string& mountpoint, std::string* why) {
  const auto entry = find_mount_at(mountpoint);
  if (geteuid() == 0 && entry && entry->type == kType) return {};
  return refuse(why, EBUSY, fmt::format("{0} holds a mount whose server is gone: run umount {0} first", mountpoint));
}

Status check_not_busy(const std::string& mountpoint, const std::string& source, std::string* why) {
  const auto entry = find_mount_at(mountpoint);
  if (!entry) return {};
  if (entry->type == kType && entry->source == source) {
    return refuse(
        why, EBUSY,
        fmt::format("{0} is mounted at {1} already; to change options: mount -o remount,... {1}, or umount {1} first",
                    source, mountpoint));
  }
  if (entry->type == kType) {
    return refuse(
        why, EBUSY,
        fmt::format("{0} is busy: {1} is mounted there already; run umount {0} first", mountpoint, entry->source));
  }
  if (is_empty(mountpoint)) return {};
  return refuse(why, EBUSY,
                fmt::format("{} is busy: {} ({}) is mounted there", mountpoint, entry->source, entry->type));
}

}  // namespace

Status clear_dead_mounts(const std::string& mountpoint, std::string* why) {
  for (int i = 0; i < kStackedMounts && is_dead_mount(mountpoint); ++i) {
    TRY(check_clearable(mountpoint, why));
    if (umount2(mountpoint.c_str(), MNT_DETACH | UMOUNT_NOFOLLOW) != 0) {
      return refuse(why, errno, fmt::format("cannot clear away the dead mount at {}: {}", mountpoint, strerror(errno)));
    }
    log::info("{}: cleared away a mount whose brickfs was killed or cut off", mountpoint);
  }
  return {};
}

Status prepare_mountpoint(MountCommand& command, std::string* why) {
  const std::unique_ptr<char, decltype(&free)> absolute(realpath(command.mountpoint.c_str(), nullptr), free);
  if (!absolute) {
    if (errno == ENOENT)
      return refuse(why, ENOENT,
                    fmt::format("mountpoint {} does not exist: make the directory first", command.mountpoint));
    return refuse(why, errno, fmt::format("mountpoint {}: {}", command.mountpoint, strerror(errno)));
  }
  command.mountpoint = absolute.get();
  struct stat attributes {};
  const int code = stat(command.mountpoint.c_str(), &attributes) == 0 ? 0 : errno;
  if (is_dead_mount(command.mountpoint)) {
    TRY(check_clearable(command.mountpoint, why));
    return check_device(why);
  }
  if (code != 0) return refuse(why, code, fmt::format("mountpoint {}: {}", command.mountpoint, strerror(code)));
  if (!S_ISDIR(attributes.st_mode))
    return refuse(why, ENOTDIR, fmt::format("mountpoint {} is not a directory", command.mountpoint));
  TRY(check_not_busy(command.mountpoint, command.source, why));
  return check_device(why);
}

}  // namespace brickfs
