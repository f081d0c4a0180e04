// SPDX-License-Identifier: Apache-2.0
#include "fs/mount/mount_options.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <sstream>

#include "transport/base/bytes.h"
#include "transport/base/size.h"
#include "transport/brick/source.h"

namespace brickfs {
namespace {

constexpr int64_t kLongestTimeoutSeconds = 7 * 24 * 3600;
constexpr uint64_t kLeastMetadataBytes = 1 * kMiB;
constexpr int64_t kLongestRetryMinutes = 525'600;
constexpr std::array<std::string_view, 6> kLogLevels = {"trace", "debug", "info", "warn", "error", "off"};

// Those that every file system takes: mount(8), "FILESYSTEM-INDEPENDENT MOUNT OPTIONS". Read by the VFS before us, or
// of no meaning here (times are the file system's own: relatime, and durable when the inode is).
constexpr std::array<std::string_view, 18> kIgnored = {
    "defaults", "relatime", "norelatime", "strictatime", "lazytime",   "nolazytime",
    "atime",    "diratime", "iversion",   "noiversion",  "nodiratime", "nostrictatime",
    "mand",     "nomand",   "silent",     "loud",        "quiet",      "verbose"};
// helper= and uhelper= are in mount(8)'s own table, the next three in the kernel's: it passes them on with remount. X-
// is done by mount(8) while it mounts.
constexpr std::array<std::string_view, 6> kIgnoredPrefixes = {
    "helper=", "uhelper=", "user_id=", "group_id=", "blksize=", "X-"};

// Those of mount(8) and systemd: the former knows which of them are of use later, and where they are kept.
constexpr std::array<std::string_view, 13> kOfUserSpace = {"auto",    "noauto",  "user",    "nouser", "users",
                                                           "nousers", "owner",   "noowner", "group",  "nogroup",
                                                           "nofail",  "_netdev", "_rnetdev"};
constexpr std::array<std::string_view, 3> kOfUserSpacePrefixes = {"x-", "comment=", "user="};

// Of one mount, not of the file system behind it: fs/mount/mount_flags.h. libfuse does not know the last two.
constexpr std::array<std::string_view, 9> kOfMount = {"dev",    "nodev",   "suid",        "nosuid",   "exec",
                                                      "noexec", "noatime", "nosymfollow", "symfollow"};
constexpr size_t kUnknownToLibfuse = 2;

// For libfuse and the kernel.
constexpr std::array<std::string_view, 6> kForKernel = {"async",      "sync",         "dirsync",
                                                        "allow_root", "auto_unmount", "default_permissions"};
constexpr std::array<std::string_view, 3> kForKernelPrefixes = {"fsname=", "subtype=", "max_read="};

// Labels. Where there is no SELinux they mean nothing: mount(8) leaves them out, and so do we.
constexpr std::array<std::string_view, 4> kLabels = {"context=", "fscontext=", "defcontext=", "rootcontext="};
constexpr const char* kSelinux = "/sys/fs/selinux";

constexpr std::string_view kOfEtcd = "etcd_";

// Of a mount that is there, beside what the kernel shows.
constexpr std::string_view kShownBy = "x-brickfs.";
constexpr std::array<std::string_view, 4> kShown = {"durable", "shared", "hard", "soft"};
constexpr std::array<std::string_view, 8> kShownPrefixes = {
    "timeo=", "linger=", "writeback=", "io_uring=", "ring=", "tls=", "metrics=", "max_metadata="};

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

Result<int64_t> parse_count(std::string_view key, std::string_view value, int64_t least, int64_t most,
                            const char* of_what, std::string* why) {
  int64_t count = 0;
  const auto [end, status] = std::from_chars(value.data(), value.data() + value.size(), count);
  if (status == std::errc() && end == value.data() + value.size() && count >= least && count <= most) return count;
  return refuse(why, fmt::format("option {}={}: it is a number of {}, {} to {}", key, value, of_what, least, most));
}

Status set_seconds(std::string_view key, std::string_view value, std::chrono::seconds& to, std::string* why) {
  to = std::chrono::seconds(TRY(parse_count(key, value, 1, kLongestTimeoutSeconds, "seconds", why)));
  return {};
}

Status set_retry(std::string_view key, std::string_view value, MountCommand& command, std::string* why) {
  command.retry = std::chrono::minutes(TRY(parse_count(key, value, 0, kLongestRetryMinutes, "minutes", why)));
  return {};
}

Status set_max_metadata(std::string_view value, MountCommand& command, std::string* why) {
  const auto bytes = parse_size(value);
  if (!bytes.ok() || *bytes < kLeastMetadataBytes) {
    return refuse(
        why, fmt::format("option max_metadata={}: it is a size from {} on", value, format_size(kLeastMetadataBytes)));
  }
  command.max_metadata_bytes = *bytes;
  command.common["max_metadata"] = "max_metadata=" + format_size(*bytes);
  return {};
}

Status set_metrics(std::string_view value, MountCommand& command, std::string* why) {
  const auto address = parse_metrics_address(std::string(value));
  if (!address.ok()) return refuse(why, fmt::format("option metrics={}: {}", value, address.error().what()));
  command.metrics = *address;
  command.common["metrics"] = fmt::format("metrics={}", value);
  return {};
}

template <typename Choice>
Status set_choice(std::string_view key, std::string_view value, Choice& to, std::string* why) {
  if (value == "auto") {
    to = Choice::kAuto;
  } else if (value == "on") {
    to = Choice::kOn;
  } else if (value == "off") {
    to = Choice::kOff;
  } else {
    return refuse(why, fmt::format("option {}={}: it is auto, on or off", key, value));
  }
  return {};
}

Status set_shm_queues(std::string_view value, MountCommand& command, std::string* why) {
  if (value != "on" && value != "off") return refuse(why, fmt::format("option ring={}: it is on or off", value));
  command.shm_queues = value == "on";
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

Status set_tls(std::string_view value, MountCommand& command, std::string* why) {
  const auto mode = parse_tls_mode(value);
  if (!mode) return refuse(why, fmt::format("option tls={}: it is off, on or require", value));
  command.tls = *mode;
  return {};
}

// ADDRESS or ADDRESS:PORT; one of IPv6 in brackets.
Status set_listen(std::string_view value, MountCommand& command, std::string* why) {
  const bool has_port = value.find("]:") != std::string_view::npos || std::ranges::count(value, ':') == 1;
  std::string reason;
  const auto url = parse_listen_url(fmt::format("tcp://{}{}", value, has_port ? "" : ":0"), &reason);
  if (!url.ok()) return refuse(why, fmt::format("option listen={}: {}", value, reason));
  if (url->host == "0.0.0.0" || url->host == "::")
    return refuse(why, fmt::format("option listen={}: it is the address by which others reach this machine", value));
  command.listen_address = url->host;
  command.listen_port = url->port;
  return {};
}

// `name` without "etcd_".
Status set_etcd(std::string_view name, std::string_view value, MountCommand& command, std::string* why) {
  std::string* const member = etcd_option(command.etcd, name);
  if (member == nullptr) return refuse(why, fmt::format("unknown option etcd_{}; brickfs --help lists them", name));
  if (value.empty()) return refuse(why, fmt::format("option etcd_{}=: it has no value", name));
  *member = value;
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
  } else if (option == "accept_older") {
    command.accept_older = true;
  } else if (option == "grow") {
    command.grow = true;
  } else if (option == "durable") {
    command.require_durable = true;
  } else if (option == "shared" || option == "share") {  // mount(8) takes the former for itself
    command.shared = true;
  } else if (option == "hard" || option == "soft") {
    command.soft = option == "soft";
  } else if (option == "bg" || option == "fg") {
    command.background = option == "bg";
  } else if (option == "allow_other" || option == "noallow_other") {
    command.allow_other = option == "allow_other";
  } else {
    return false;
  }
  return true;
}

// The same, of those that are the kernel's.
bool set_kernel_option(std::string_view option, MountCommand& command) {
  if (const auto* const at = std::find(kOfMount.begin(), kOfMount.end(), option); at != kOfMount.end()) {
    command.mount_flags.emplace_back(option);
    command.no_atime = command.no_atime || option == "noatime";
    if (kOfMount.end() - at > static_cast<ptrdiff_t>(kUnknownToLibfuse)) command.kernel_options.emplace_back(option);
    return true;
  }
  if (contains_prefix_of(kLabels, option)) {
    if (access(kSelinux, F_OK) == 0) command.kernel_options.emplace_back(option);
    return true;
  }
  if (!contains(kForKernel, option) && !contains_prefix_of(kForKernelPrefixes, option)) return false;
  command.kernel_options.emplace_back(option);
  return true;
}

// One server answers for all mounts of a volume, so its options are theirs.
void note_common(std::string_view option, MountCommand& command) {
  constexpr std::array<std::string_view, 5> kValues = {"timeo=", "linger=", "writeback=", "ring=", "tls="};
  if (option == "hard" || option == "soft") {
    command.common["hard"] = option;
  } else if (option == "shared" || option == "share") {
    command.common["shared"] = "shared";
  } else if (option == "allow_other" || option == "noallow_other") {
    command.common["allow_other"] = option;
  } else if (option.starts_with("io_uring=")) {
    command.common["io_uring"] = option;
  } else if (option == "durable" || option == "sync" || option == "dirsync" || option.starts_with("max_read=") ||
             contains_prefix_of(kLabels, option) || contains_prefix_of(kValues, option)) {
    command.common[std::string(option.substr(0, option.find('=')))] = option;
  }
}

Status set_option(std::string_view option, MountCommand& command, std::string* why) {
  note_common(option, command);
  if (set_flag(option, command)) return {};
  const size_t equals = option.find('=');
  const std::string_view key = option.substr(0, equals);
  const std::string_view value = equals == std::string_view::npos ? std::string_view() : option.substr(equals + 1);
  if (equals != std::string_view::npos) {
    if (key == "timeo") return set_seconds(key, value, command.soft_timeout, why);
    if (key == "retry") return set_retry(key, value, command, why);
    if (key == "linger") return set_seconds(key, value, command.linger, why);
    if (key == "max_metadata") return set_max_metadata(value, command, why);
    if (key == "metrics") return set_metrics(value, command, why);
    if (key == "secret") return set_secret(value, command, why);
    if (key == "tls") return set_tls(value, command, why);
    if (key == "listen") return set_listen(value, command, why);
    if (key.starts_with(kOfEtcd)) return set_etcd(key.substr(kOfEtcd.size()), value, command, why);
    if (key == "writeback") return set_choice(key, value, command.writeback, why);
    if (key == "io_uring") return set_choice(key, value, command.io_uring, why);
    if (key == "ring") return set_shm_queues(value, command, why);
    if (key == "log") return set_log_level(value, command, why);
  }
  if (set_kernel_option(option, command)) return {};
  if (contains(kOfUserSpace, option) || contains_prefix_of(kOfUserSpacePrefixes, option)) {
    command.of_user_space.emplace_back(option);
    return {};
  }
  if (contains(kIgnored, option) || contains_prefix_of(kIgnoredPrefixes, option)) return {};
  return refuse(why, fmt::format("unknown option {}; brickfs --help lists them", option));
}

}  // namespace

bool is_for_everybody(const MountCommand& command) {
  const auto& options = command.kernel_options;
  const bool for_root = std::find(options.begin(), options.end(), "allow_root") != options.end();
  return command.allow_other.value_or(geteuid() == 0 && !for_root);
}

std::string MountCommand::listed_source() const {
  constexpr std::string_view kName = "fsname=";
  std::string listed = source;
  for (const std::string& option : kernel_options) {
    if (option.starts_with(kName)) listed = option.substr(kName.size());
  }
  return listed;
}

std::string describe_common_options(const MountCommand& command, bool durable, bool io_uring) {
  std::string all = fmt::format(
      "{} {} {}{} timeo={} linger={} writeback={} io_uring={} ring={} tls={} {}", command.read_only ? "ro" : "rw",
      durable ? "durable" : "volatile", command.shared ? "shared " : "", command.soft ? "soft" : "hard",
      command.soft_timeout.count(), command.linger.count(), command.writeback == Writeback::kOn ? "on" : "off",
      io_uring ? "on" : "off", command.shm_queues ? "on" : "off", format_tls_mode(command.tls),
      is_for_everybody(command) ? "allow_other" : "noallow_other");
  if (const auto metrics = command.common.find("metrics"); metrics != command.common.end())
    all += " " + metrics->second;
  if (command.max_metadata_bytes > 0) all += " max_metadata=" + format_size(command.max_metadata_bytes);
  for (const std::string& option : command.kernel_options) {
    if (!contains(kOfMount, option)) all += " " + option;
  }
  return all;
}

std::vector<std::string> options_to_show(const std::string& common) {
  std::vector<std::string> shown;
  std::istringstream words(common);
  for (std::string word; words >> word;) {
    if (contains(kShown, word) || contains_prefix_of(kShownPrefixes, word))
      shown.push_back(fmt::format("{}{}", kShownBy, word));
  }
  return shown;
}

bool is_shown_option(std::string_view option) { return option.starts_with(kShownBy); }

Status parse_mount_options(std::string_view list, MountCommand& command, std::string* why) {
  while (!list.empty()) {
    std::string_view option = take_option(list);
    if (is_shown_option(option)) option.remove_prefix(kShownBy.size());
    if (!option.empty()) TRY(set_option(option, command, why));
  }
  return {};
}

Status check_mounts_nothing(const MountCommand& command, std::string* why) {
  constexpr std::array<const char*, 4> kOfMounts = {"allow_other", "io_uring", "ring", "writeback"};
  if (!command.shared) {
    return refuse(why, fmt::format("mountpoint {}: only with -o shared, by which others have the volume through here",
                                   command.mountpoint));
  }
  if (command.read_only) return refuse(why, "option ro: not with none: whoever coordinates a volume writes to it");
  std::vector<std::string> given = command.mount_flags;
  given.insert(given.end(), command.kernel_options.begin(), command.kernel_options.end());
  for (const char* about : kOfMounts) {
    if (const auto at = command.common.find(about); at != command.common.end()) given.push_back(at->second);
  }
  if (command.remount) given.emplace_back("remount");
  if (given.empty()) return {};
  return refuse(why, fmt::format("option {}: not with none: nothing is mounted here", given.front()));
}

std::optional<std::string> not_in_force(const MountCommand& command, const std::string& options) {
  std::vector<std::string> there;
  std::istringstream words(options);
  for (std::string word; words >> word;) there.push_back(word);
  const auto has = [&there](const std::string& word) {
    return std::find(there.begin(), there.end(), word) != there.end();
  };
  if (!command.read_only && has("ro")) return "rw";
  for (const auto& [about, option] : command.common) {
    if (!option.ends_with("=auto") && !has(option)) return option;
  }
  return std::nullopt;
}

}  // namespace brickfs
