// SPDX-License-Identifier: Apache-2.0
#include "fs/mount/utab.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>
#include <utility>

#include "fs/mount/mount_options.h"
#include "fs/mount/option_list.h"
#include "fs/mount/status/mount_table.h"
#include "transport/base/log.h"

extern char** environ;

namespace brickfs {
namespace {

constexpr const char* kUmountHelper = "/sbin/umount.fuse.brickfs";
constexpr const char* kHelperOption = "uhelper=fuse.brickfs";

std::string join(const std::vector<std::string>& options) {
  std::string list;
  for (const std::string& option : options) list += (list.empty() ? "" : ",") + option;
  return list;
}

// One that was not ended by umount(8); and with -o bg mount(8) has noted what was not mounted yet, without our helper.
// Readers believe the first entry that they find.
void forget_former_mounts(const std::string& source, const std::string& mountpoint) {
  for (size_t left = options_in_utab(source, mountpoint).size(); left > 0; --left) {
    if (!run_quietly({"umount", "-i", "--fake", mountpoint}).ok()) return;
  }
}

}  // namespace

Status run_quietly(std::vector<std::string> words) {
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  for (const int standard : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    posix_spawn_file_actions_addopen(&actions, standard, "/dev/null", O_RDWR, 0);
  }
  pid_t pid = 0;
  const int failed = posix_spawnp(&pid, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) return Error(failed, "running a program");
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? Status() : Error(EIO, "a program that was run");
}

// The name in the kernel's table would tell umount(8), but it looks at statfs(2), which tells no more than "fuse".
void register_in_utab(const std::string& source, const std::string& mountpoint, std::vector<std::string> options,
                      const std::string& in_force) {
  if (geteuid() != 0) return;
  std::erase_if(options, is_shown_option);  // a former mount's
  for (std::string& option : options_to_show(in_force)) options.push_back(std::move(option));
  if (access(kUmountHelper, X_OK) == 0) options.emplace_back(kHelperOption);
  forget_former_mounts(source, mountpoint);
  const Status told = run_quietly({"mount", "-i", "-f", "-t", "fuse.brickfs", "-o", join(options), source, mountpoint});
  if (told.ok()) return;
  log::warn(
      "umount will not wait until everything is durable, nor a shutdown, before the network goes: mount cannot write "
      "/run/mount/utab");
}

void add_to_utab(const std::string& source, const std::string& mountpoint, const std::vector<std::string>& options) {
  if (geteuid() != 0) return;
  std::vector<std::string> there;
  for (const std::string& list : options_in_utab(source, mountpoint)) {
    for (std::string_view rest = list; !rest.empty();) there.emplace_back(take_option(rest));
  }
  std::string added;
  for (const std::string& option : options) {
    if (std::find(there.begin(), there.end(), option) == there.end()) added += "," + option;
  }
  if (added.empty()) return;
  const Status told = run_quietly({"mount", "-i", "-f", "-o", "remount" + added, mountpoint});
  if (!told.ok()) log::warn("mount cannot write {} to /run/mount/utab", added.substr(1));
}

}  // namespace brickfs
