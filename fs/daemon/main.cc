// SPDX-License-Identifier: Apache-2.0
// brickfs: mounts a volume of a brick as a file system.
#include <fmt/core.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "fs/daemon/coordinating.h"
#include "fs/daemon/daemon.h"
#include "fs/daemon/serving.h"
#include "fs/mount/mount_flags.h"
#include "fs/mount/mount_options.h"
#include "fs/mount/mount_program.h"
#include "fs/mount/mount_source.h"
#include "fs/mount/mountpoint.h"
#include "fs/mount/second_mount.h"
#include "transport/base/journal.h"
#include "transport/base/log.h"
#include "transport/base/printable.h"

namespace brickfs {
namespace {

constexpr int kFine = 0;
constexpr int kFailure = 1;
constexpr int kUsage = 2;

constexpr const char* kAfterHelp = R"(
SOURCE  rdma://HOST[:PORT][,HOST[:PORT]]/VOLUME   tcp://HOST[:PORT]/VOLUME   memory:SIZE   file:PATH[,SIZE]
        `+` stands between the bricks of a set, over which the volume is striped: tcp://a+b+c/VOLUME.
        Sizes take K, M, G, T. The default port is 20470, the default volume `default`.
OPT     ro, rw            read-only or not (rw)
        steal             take the volume from a live holder
        accept_older      a set with bricks, or copies, that are of older stores which were put back, as they are
        grow              bricks of SOURCE that the volume does not have yet join it
        durable           refuse a brick that would not survive its own crash
        shared, share     other machines have the volume, too (mount(8) and fstab: share); with the MOUNTPOINT `none`
                          this one has it for them, and mounts nothing
        listen=ADDR[:PORT]  where other machines reach this one, if it is the first to mount a shared volume (as the
                          brick does, at any port)
        hard              operations wait for a brick that is away (the default)
        soft, timeo=SEC   operations fail with EIO when it has been away for so long (60)
        linger=SEC        so long brickfs tries to bring what was written to a brick that is away, after an umount (300)
        max_metadata=SIZE  of memory for inodes and names: beyond it new names get ENOSPC (no bound)
        metrics=ADDR:PORT  where Prometheus may ask for numbers: GET /metrics (nowhere)
        bg, retry=MINUTES  a volume that cannot be had yet is tried again: with bg behind the caller's back (10000),
                          else before it returns (0)
        secret=PATH       file with the volume's secret
        tls=off|on|require  TLS 1.3 by that secret, over tcp:// (off; on: with bricks that do it)
        etcd_ca=PATH      of an etcd:// source: the CA of etcd's certificates, which asks for TLS
        etcd_cert=PATH, etcd_key=PATH  certificate that is shown to etcd, and its key
        etcd_user=NAME, etcd_password=PATH  user of etcd, and file with the password
        writeback=auto|on|off  write() leaves the bytes in the kernel's cache (off; auto: where that does little harm)
        io_uring=auto|on|off  requests over io_uring (auto: if this kernel allows it; on: have it allow it, for this
                          mount)
        ring=on|off       programs may have a ring to this mount: brickfs-run, libbrickfs (off)
        log=LEVEL         trace, debug, info, warn, error, off (info)
        allow_other, noallow_other   whether others than who mounted may use it, within what modes, owners and ACLs
                          say (root's mounts: allow_other; a user's: noallow_other, unless /etc/fuse.conf has
                          user_allow_other)
        nodev, nosuid, noexec, noatime, nosymfollow, sync, context= ... as with any file system: mount(8)

umount MOUNTPOINT ends it; where nothing is mounted, SIGTERM.)";

int fail(int code, const std::string& line) {
  print_error(fmt::format("brickfs: {}", printable(line)));
  return code;
}

int exit_code_of(const Error& error) { return error.is(EINVAL) ? kUsage : kFailure; }

// A usage error's exit code, or nothing and the command.
std::optional<int> parse_command_line(std::vector<std::string> words, MountCommand& command) {
  CLI::App app("Mounts a volume of a brick as a file system.", "brickfs");
  std::vector<std::string> lists;
  app.add_option("SOURCE", command.source, "The volume")->required();
  app.add_option("MOUNTPOINT", command.mountpoint, "An existing directory; none: see -o shared")->required();
  app.add_option("-o", lists, "Options, see below")->type_name("OPT[,OPT]...")->allow_extra_args(false);
  app.add_flag("-f", command.foreground, "Stay in the foreground");
  app.set_version_flag("--version", std::string("brickfs ") + BRICKFS_VERSION);
  app.footer(kAfterHelp);
  try {
    std::reverse(words.begin(), words.end());  // as CLI11 wants them
    app.parse(std::move(words));
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    return fail(kUsage, fmt::format("{} (see brickfs --help)", error.what()));
  }
  std::string why;
  for (const std::string& list : lists) {
    const Status parsed = parse_mount_options(list, command, &why);
    if (!parsed.ok()) return fail(exit_code_of(parsed.error()), why);
  }
  if (!command.mounts() && !check_mounts_nothing(command, &why).ok()) return fail(kUsage, why);
  const Status source = prepare_source(command, &why);
  if (!source.ok()) return fail(kUsage, why);
  return std::nullopt;
}

Status serve(const MountCommand& command, const MountEvents& events, std::string* why) {
  return command.mounts() ? serve_mount(command, events, why) : coordinate_without_mount(command, events, why);
}

std::string mounted_line(const MountCommand& command) {
  if (!command.mounts()) return fmt::format("{} is served to other machines, and not mounted here", command.source);
  return fmt::format("{} is mounted at {}", command.source, command.mountpoint);
}

int run_in_foreground(const MountCommand& command) {
  std::string why;
  const MountEvents events{.ready = [&command] { log::info("{}", mounted_line(command)); },
                           .waiting = [](const std::string&) {}};
  const Status served = serve(command, events, &why);
  return served.ok() ? kFine : fail(kFailure, why);
}

// The volume is held: by another mount of this host, as it may have turned out.
Status share(const MountCommand& command, Status refused, std::string* why) {
  if (const auto shared = mount_once_more(command, why)) return *shared;
  return refused;
}

// In the parent: what the child has told.
int conclude(const Daemon::Outcome& outcome) {
  if (!outcome.line.empty()) {  // one of a mount that goes on is not an error
    const auto level = outcome.exit_code == kFine ? log::Level::kWarning : log::Level::kError;
    fmt::print(stderr, "{}brickfs: {}\n", journal_prefix(level), outcome.line);
  }
  return outcome.exit_code;
}

int run_in_background(const MountCommand& command) {
  Daemon daemon;
  const auto outcome = daemon.fork_and_wait();
  if (!outcome.ok()) return fail(kFailure, describe(outcome.error()));
  if (outcome->has_value()) return conclude(**outcome);
  bool told = false;  // the parent, that it may end
  bool is_serving = false;
  std::string why;
  const auto tell = [&](std::string line) {
    if (!told) daemon.tell_ready(std::move(line));
    told = true;
  };
  const MountEvents events{
      .ready =
          [&] {
            log::info("{}", mounted_line(command));
            is_serving = true;
            tell({});
          },
      .waiting = [&](const std::string& reason) { tell(reason + "; trying again in the background"); }};
  Status served = serve(command, events, &why);
  if (served.code() == EBUSY && !is_serving) served = share(command, served, &why);
  if (served.ok() && !is_serving) tell({});
  if (served.ok()) return kFine;
  if (told) {
    log::error("{}", why);
  } else {
    daemon.tell_failure({.exit_code = kFailure, .line = why});
  }
  return kFailure;
}

int run(std::vector<std::string> words) {
  MountCommand command;
  if (const auto usage = parse_command_line(std::move(words), command)) return *usage;
  for (std::string& option : options_mount_keeps(command.source, command.mountpoint)) {
    auto& known = command.of_user_space;
    if (std::find(known.begin(), known.end(), option) == known.end()) known.push_back(std::move(option));
  }
  if (!set_up_log("brickfs", command.log_level, command.log_target()).ok())
    return fail(kUsage, "cannot set up the log");
  if (!install_signals().ok()) return fail(kFailure, "cannot set up signals");
  std::string why;
  if (command.remount) return remount(command, &why).ok() ? kFine : fail(kFailure, why);
  if (command.mounts()) {
    if (!prepare_mountpoint(command, &why).ok()) return fail(kFailure, why);
    if (const auto shared = mount_once_more(command, &why)) return shared->ok() ? kFine : fail(kFailure, why);
  }
  prepare_for_memory_shortage();
  return command.foreground ? run_in_foreground(command) : run_in_background(command);
}

int run_for_mount(const std::vector<std::string>& words) {
  std::string why;
  auto call = parse_mount_call(words, &why);
  if (!call.ok()) return mount_exit_code(fail(kUsage, why));
  return call->fake ? kFine : mount_exit_code(run(std::move(call->words)));
}

}  // namespace
}  // namespace brickfs

int main(int argc, char** argv) {
  std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
  return argc > 0 && brickfs::is_mount_call(argv[0]) ? brickfs::run_for_mount(words) : brickfs::run(std::move(words));
}
