// SPDX-License-Identifier: Apache-2.0
#include "fs/fuse/umount_helper.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "transport/base/log.h"

extern char** environ;

namespace brickfs {
namespace {

constexpr const char* kUmountHelper = "/sbin/umount.fuse.brickfs";

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
void register_umount_helper(const std::string& source, const std::string& mountpoint) {
  if (geteuid() != 0 || access(kUmountHelper, X_OK) != 0) return;
  const Status told =
      run_quietly({"mount", "-i", "-f", "-t", "fuse.brickfs", "-o", "uhelper=fuse.brickfs", source, mountpoint});
  if (!told.ok()) log::warn("umount will not wait until everything is durable: {} cannot be registered", kUmountHelper);
}

}  // namespace brickfs
