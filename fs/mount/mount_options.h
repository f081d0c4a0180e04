// SPDX-License-Identifier: Apache-2.0
// The command line of brickfs: brickfs SOURCE MOUNTPOINT [-o OPT[,OPT]...] [-f].
#pragma once

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fs/mount/status/without_mount.h"
#include "transport/base/log.h"
#include "transport/base/result.h"
#include "transport/brick/limits.h"
#include "transport/brick/tls_mode.h"
#include "transport/etcd/etcd_options.h"
#include "transport/metrics/metrics_server.h"

namespace brickfs {

enum class IoUring { kAuto, kOn, kOff };
enum class Writeback { kAuto, kOn, kOff };

constexpr const char* kOverNetwork = "_netdev";  // among the options of user space

struct MountCommand {
  std::string source;
  std::string mountpoint;
  bool foreground = false;

  // -o
  bool read_only = false;
  bool remount = false;  // change the options of a mount that is there
  bool steal = false;
  bool accept_older = false;
  bool grow = false;  // bricks of the source that the volume does not have yet join it
  bool require_durable = false;
  bool soft = false;
  std::chrono::seconds soft_timeout = limits::kSoftTimeout;
  uint64_t max_metadata_bytes = 0;        // of memory; 0: no bound
  std::optional<MetricsAddress> metrics;  // where Prometheus may ask
  std::chrono::seconds linger{300};       // after an umount, for a brick that is away
  std::string secret_path;
  TlsMode tls = TlsMode::kOff;
  EtcdOptions etcd;                       // of an etcd:// source
  Writeback writeback = Writeback::kOff;  // auto: Serving decides
  bool no_atime = false;
  IoUring io_uring = IoUring::kAuto;
  bool shared = false;      // other machines have the volume, too
  bool shm_queues = false;  // ring=on: programs may come by queues in shared memory (fs/shm_queue/serve/shm_queues.h)
  std::string listen_address;  // where this coordinates a shared volume; empty: as the bricks are reached
  uint16_t listen_port = 0;    // 0: any
  std::string log_level = "info";
  bool background = false;  // bg: if the volume cannot be had yet, go on trying behind the caller's back
  std::optional<std::chrono::minutes> retry;  // how long; none: not at all, or with `bg` for a week
  std::optional<bool> allow_other;            // none: root's mounts are for everybody, a user's for that one
  std::vector<std::string> kernel_options;    // as libfuse takes them: nodev, sync, max_read= ...
  std::map<std::string, std::string>
      common;                              // what was given and holds for all mounts of a volume, by what it is about
  std::vector<std::string> mount_flags;    // in their order: nodev, suid, nosymfollow ...
  std::vector<std::string> of_user_space;  // of mount(8) and systemd, which read them later: _netdev, nofail, x-...

  // False: SOURCE `none`, which is coordinated for other machines and mounted nowhere here.
  bool mounts() const { return mountpoint != kNoMountpoint; }
  std::string listed_source() const;  // in the kernel's table of mounts: with fsname= as that says
  LogTarget log_target() const { return foreground ? LogTarget::kStandardError : LogTarget::kBoth; }
};

// FUSE keeps everybody out but who mounted, lest one user's server holds another's programs up or sees what they do.
// Root's mounts are the system's, as those of any other file system are.
bool is_for_everybody(const MountCommand& command);

// One comma-separated list, in which quotes protect commas; later ones win. With one line in `why`: EINVAL for what is
// unknown or has a bad value, ENOTSUP for what this build cannot do. What means nothing here (relatime, iversion ...)
// is passed over.
Status parse_mount_options(std::string_view list, MountCommand& command, std::string* why);

// EINVAL, with one line in `why`: a command that mounts nothing, without `shared`, or with an option of a mount.
Status check_mounts_nothing(const MountCommand& command, std::string* why);

// The same in full, of a mount that is there, with spaces between: its value of each option that a command has in
// `common`.
std::string describe_common_options(const MountCommand& command, bool durable, bool io_uring);

// The first option that the command names and the serving brickfs of a mount does not go by, though it keeps its own
// until it ends: who asks for the same file system once more, or for other options (remount), learns that. `options`:
// describe_common_options(), as it says.
std::optional<std::string> not_in_force(const MountCommand& command, const std::string& options);

// Of these the ones that the kernel's table of mounts does not have, as options of user space, which mount(8) and
// findmnt(8) show: x-brickfs.soft, x-brickfs.timeo=60 ... parse_mount_options() takes them for what stands behind the
// dot, as `mount -o remount` hands them back.
std::vector<std::string> options_to_show(const std::string& common);
bool is_shown_option(std::string_view option);

// A list of mount options: commas stand between them, and quotes protect commas, as a label may have some:
// context="system_u:object_r:tmp_t:s0:c127,c456".
//
// The first one, which `list` loses. It may be empty.
inline std::string_view take_option(std::string_view& list) {
  bool quoted = false;
  const auto* const comma = std::find_if(list.begin(), list.end(), [&quoted](char c) {
    quoted = quoted != (c == '"');
    return c == ',' && !quoted;
  });
  const std::string_view option(list.begin(), comma);
  list.remove_prefix(std::min(list.size(), option.size() + 1));
  return option;
}

}  // namespace brickfs
