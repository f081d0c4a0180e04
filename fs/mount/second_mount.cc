// SPDX-License-Identifier: Apache-2.0
#include "fs/mount/second_mount.h"

#include <fmt/core.h>
#include <sys/mount.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <vector>

#include "fs/mount/mount_flags.h"
#include "fs/mount/mount_program.h"
#include "fs/mount/status/brickfs_end.h"
#include "fs/mount/status/mount_table.h"
#include "transport/base/log.h"
#include "transport/brick/limits.h"
#include "transport/brick/source.h"
#include "transport/membership/client_identity.h"

namespace brickfs {
namespace {

constexpr const char* kBrickfs = "fuse.brickfs";

Error not_again(std::string* why, int code, std::string text) {
  *why = std::move(text);
  return Error(code, "a second mount");
}

// By its name; a brick in the client's memory is each mount's own.
bool is_same_volume(const Source& a, const Source& b) {
  if (a.kind == SourceKind::kMemory || a.embedded() != b.embedded()) return false;
  if (a.kind == SourceKind::kFile) return a.kind == b.kind && a.path == b.path;
  if ((a.kind == SourceKind::kEtcd) != (b.kind == SourceKind::kEtcd)) return false;
  return a.volume == b.volume && std::find_first_of(a.addresses.begin(), a.addresses.end(), b.addresses.begin(),
                                                    b.addresses.end()) != a.addresses.end();
}

std::vector<MountEntry> mounts_of_volume(const MountCommand& command) {
  std::string ignored;
  std::vector<MountEntry> mounts;
  const auto wanted = parse_source(command.source, &ignored);
  if (!wanted.ok()) return mounts;
  for (MountEntry& entry : all_mounts()) {
    if (entry.type != kBrickfs || entry.root != "/") continue;
    const auto source = parse_source(entry.source, &ignored);
    if (source.ok() && is_same_volume(*source, *wanted)) mounts.push_back(std::move(entry));
  }
  return mounts;
}

// Shows the whole file system there, and nothing else, however the tree of mounts changes meanwhile.
Status bind(const MountEntry& first, const MountCommand& command, std::string* why) {
  const std::string& there = command.mountpoint;
  if (::mount(first.mountpoint.c_str(), there.c_str(), nullptr, MS_BIND, nullptr) != 0) {
    const int code = errno;
    return not_again(why, code, fmt::format("cannot bind {} to {}: {}", first.mountpoint, there, strerror(code)));
  }
  const auto made = find_mount_at(there);
  Status status = Error(EBUSY, "a second mount");
  if (made && made->device == first.device && made->root == "/") {
    status = set_mount_flags(there, mount_flags_of(command), why);
  } else {
    *why = fmt::format("{} is no longer mounted at {}", command.source, first.mountpoint);
  }
  if (!status.ok()) umount2(there.c_str(), MNT_DETACH | UMOUNT_NOFOLLOW);
  return status;
}

Status mount_beside(const MountEntry& first, const UmountReport& server, const MountCommand& command,
                    std::string* why) {
  const std::string by_hand = fmt::format("mount --bind {} {}", first.mountpoint, command.mountpoint);
  if (command.foreground) {
    return not_again(why, EBUSY,
                     fmt::format("{} is mounted at {} already, so that there is nothing to serve with -f: {}",
                                 command.source, first.mountpoint, by_hand));
  }
  if (const auto option = not_in_force(command, server.options)) {
    return not_again(
        why, EBUSY,
        fmt::format(
            "{} is mounted at {} already, with other options than {} ({}): leave that out, or unmount it there first",
            command.source, first.mountpoint, *option, server.options));
  }
  register_in_utab(first.source, command.mountpoint, command.of_user_space);
  if (const Status bound = bind(first, command, why); !bound.ok()) {
    forget_in_utab(first.source, command.mountpoint);
    return bound;
  }
  add_to_utab(first.source, command.mountpoint, options_to_show(server.options));
  log::info("{} is mounted at {}, too, as at {}", command.source, command.mountpoint, first.mountpoint);
  return {};
}

struct FirstMount {
  MountEntry entry;
  UmountReport server;
};

// Root's, of all of the volume, with somebody who answers for it.
std::optional<FirstMount> find_first_mount(const MountCommand& command) {
  if (geteuid() != 0 || command.steal || command.shared) return std::nullopt;  // shared: each mount is a member
  for (MountEntry& entry : mounts_of_volume(command)) {
    if (entry.user != 0) continue;
    auto server = ask_server(entry.device);
    if (server && !server->ended && server->link != LinkState::Kind::kFailed)
      return FirstMount{std::move(entry), std::move(*server)};
  }
  return std::nullopt;
}

std::string host_name() {
  std::array<char, HOST_NAME_MAX + 1> host{};
  gethostname(host.data(), host.size() - 1);
  return host.data();
}

}  // namespace

std::string client_name() {
  return fmt::format("{} (pid {})", host_name(), getpid()).substr(0, limits::kClientNameBytes);
}

bool can_mount_once_more(const MountCommand& command) { return find_first_mount(command).has_value(); }

std::optional<Status> mount_once_more(const MountCommand& command, std::string* why) {
  const auto first = find_first_mount(command);
  if (!first) return std::nullopt;
  for (const MountEntry& entry : find_mounts_of(first->entry.device)) {
    if (entry.mountpoint != command.mountpoint) continue;
    return not_again(why, EBUSY, fmt::format("{} is mounted at {} already", command.source, command.mountpoint));
  }
  return mount_beside(first->entry, first->server, command, why);
}

bool is_being_mounted_here(const Holder& holder) {
  const auto pid = local_process(holder.client);
  if (!pid) return false;
  const std::string process = fmt::format("/proc/{}/", *pid);
  std::ifstream name_of(process + "comm");
  std::string name;
  if (!std::getline(name_of, name) || name != "brickfs") return false;
  std::error_code error;  // no such process any more, or another user's: not known
  for (std::filesystem::directory_iterator fds(process + "fd", error), end; !error && fds != end;
       fds.increment(error)) {
    std::error_code closed;
    if (std::filesystem::read_symlink(fds->path(), closed) == "/dev/fuse") return false;
  }
  return !error;
}

std::string describe_first_mount(const MountCommand& command, const Holder& holder) {
  const auto process = local_process(holder.client);
  if (!process) return {};
  auto mounts = mounts_of_volume(command);
  std::erase_if(mounts, [&](const MountEntry& entry) {
    const auto server = ask_server(entry.device);
    return server && server->pid != *process;
  });
  for (MountEntry& entry : all_mounts()) {  // its source may be written otherwise
    if (!mounts.empty() || geteuid() != 0 || entry.user != 0 || entry.type != kBrickfs || entry.root != "/") continue;
    const auto server = ask_server(entry.device);
    if (server && server->pid == *process) mounts.push_back(std::move(entry));
  }
  if (mounts.empty() || mounts.front().mountpoint == command.mountpoint) return {};
  return fmt::format("; here it is mounted at {0}, and as root: mount --bind {0} {1}", mounts.front().mountpoint,
                     command.mountpoint);
}

}  // namespace brickfs
