// SPDX-License-Identifier: Apache-2.0
#include "fs/fuse/mount_options.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>

namespace brickfs {
namespace {

constexpr int64_t kLongestTimeoutSeconds = 7 * 24 * 3600;
constexpr std::array<std::string_view, 6> kLogLevels = {"trace", "debug", "info", "warn", "error", "off"};

// Read by mount(8), systemd or the VFS before us, or of no meaning here (times are the file system's own: relatime).
constexpr std::array<std::string_view, 22> kIgnored = {
    "defaults", "auto",     "noauto",     "user",       "nouser",      "users",         "owner",    "group",
    "nofail",   "_netdev",  "relatime",   "norelatime", "strictatime", "nostrictatime", "lazytime", "nolazytime",
    "atime",    "diratime", "nodiratime", "iversion",   "noiversion",  "silent"};
// The last three are in the kernel's own list, which mount(8) passes on with remount.
constexpr std::array<std::string_view, 7> kIgnoredPrefixes = {"x-",       "X-",        "comment=", "user=",
                                                              "user_id=", "group_id=", "blksize="};

// For libfuse and the kernel.
constexpr std::array<std::string_view, 13> kForKernel = {"dev",
                                                         "nodev",
                                                         "suid",
                                                         "nosuid",
                                                         "exec",
                                                         "noexec",
                                                         "async",
                                                         "sync",
                                                         "dirsync",
                                                         "allow_other",
                                                         "allow_root",
                                                         "auto_unmount",
                                                         "default_permissions"};
constexpr std::array<std::string_view, 3> kForKernelPrefixes = {"fsname=", "subtype=", "max_read="};

template <size_t N>
bool contains(const std::array<std::string_view, N>& list, std::string_view option) {
  return std::find(list.begin(), list.end(), option) != list.end();
}

template <size_t N>
bool contains_prefix_of(const std::array<std::string_view, N>& list, std::string_view option) {
  return std::any_of(list.begin(), list.end(),
                     [option](std::string_view prefix) { return option.starts_with(prefix); });
}

Error refuse(std::string* why, std::string text) {
  *why = std::move(text);
  return Error(EINVAL, "mount options");
}

Status set_switch(std::string_view key, std::string_view value, bool& to, std::string* why) {
  if (value != "on" && value != "off") return refuse(why, fmt::format("option {}={}: it is on or off", key, value));
  to = value == "on";
  return {};
}

Status set_seconds(std::string_view key, std::string_view value, std::chrono::seconds& to, std::string* why) {
  int64_t seconds = 0;
  const auto [end, status] = std::from_chars(value.data(), value.data() + value.size(), seconds);
  if (status != std::errc() || end != value.data() + value.size() || seconds < 1 || seconds > kLongestTimeoutSeconds) {
    return refuse(why,
                  fmt::format("option {}={}: it is a number of seconds, 1 to {}", key, value, kLongestTimeoutSeconds));
  }
  to = std::chrono::seconds(seconds);
  return {};
}

Status set_io_uring(std::string_view value, MountCommand& command, std::string* why) {
  if (value == "auto") {
    command.io_uring = IoUring::kAuto;
  } else if (value == "on") {
    command.io_uring = IoUring::kOn;
  } else if (value == "off") {
    command.io_uring = IoUring::kOff;
  } else {
    return refuse(why, fmt::format("option io_uring={}: it is auto, on or off", value));
  }
  return {};
}

Status set_log_level(std::string_view value, MountCommand& command, std::string* why) {
  if (!contains(kLogLevels, value)) {
    return refuse(why, fmt::format("option log={}: it is trace, debug, info, warn, error or off", value));
  }
  command.log_level = value;
  return {};
}

Status set_secret(std::string_view value, MountCommand& command, std::string* why) {
  if (value.empty()) return refuse(why, "option secret=: it is the path of a file");
  command.secret_path = value;
  return {};
}

// True: it was one without a value.
bool set_flag(std::string_view option, MountCommand& command) {
  if (option == "ro" || option == "rw") {
    command.read_only = option == "ro";
  } else if (option == "remount") {
    command.remount = true;
  } else if (option == "steal") {
    command.steal = true;
  } else if (option == "durable") {
    command.require_durable = true;
  } else if (option == "hard" || option == "soft") {
    command.soft = option == "soft";
  } else if (option == "noatime") {
    command.no_atime = true;
    command.kernel_options.emplace_back(option);
  } else {
    return false;
  }
  return true;
}

Status set_option(std::string_view option, MountCommand& command, std::string* why) {
  if (set_flag(option, command)) return {};
  const size_t equals = option.find('=');
  const std::string_view key = option.substr(0, equals);
  const std::string_view value = equals == std::string_view::npos ? std::string_view() : option.substr(equals + 1);
  if (equals != std::string_view::npos) {
    if (key == "timeo") return set_seconds(key, value, command.soft_timeout, why);
    if (key == "linger") return set_seconds(key, value, command.linger, why);
    if (key == "secret") return set_secret(value, command, why);
    if (key == "writeback") return set_switch(key, value, command.writeback_cache, why);
    if (key == "io_uring") return set_io_uring(value, command, why);
    if (key == "log") return set_log_level(value, command, why);
  }
  if (contains(kForKernel, option) || contains_prefix_of(kForKernelPrefixes, option)) {
    command.kernel_options.emplace_back(option);
    return {};
  }
  if (contains(kIgnored, option) || contains_prefix_of(kIgnoredPrefixes, option)) return {};
  return refuse(why, fmt::format("unknown option {}; brickfs --help lists them", option));
}

}  // namespace

Status parse_mount_options(std::string_view list, MountCommand& command, std::string* why) {
  while (!list.empty()) {
    const size_t comma = list.find(',');
    const std::string_view option = list.substr(0, comma);
    if (!option.empty()) TRY(set_option(option, command, why));
    list.remove_prefix(comma == std::string_view::npos ? list.size() : comma + 1);
  }
  return {};
}

}  // namespace brickfs
