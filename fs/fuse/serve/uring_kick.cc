// SPDX-License-Identifier: Apache-2.0
#include "fs/fuse/serve/uring_kick.h"

#include <sched.h>
#include <sys/statfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <system_error>
#include <thread>
#include <vector>

#include "transport/base/log.h"

namespace brickfs {
namespace {

constexpr size_t kStackBytes = size_t{64} << 10;
constexpr unsigned kAllFiles = ~0U;

struct Kick {
  std::string mountpoint;
  cpu_set_t cpus;
};

// In a process that does not have the device. If brickfs is killed, a thread of its own could not end before the
// answer, and would keep the device, and with it the mount, for ever. statfs is never answered from the kernel's
// caches.
int make_request(void* argument) {
  const Kick& kick = *static_cast<const Kick*>(argument);
  struct statfs stat {};
  if (close_range(0, kAllFiles, 0) != 0 || sched_setaffinity(0, sizeof(kick.cpus), &kick.cpus) != 0) return 1;
  return ::statfs(kick.mountpoint.c_str(), &stat) == 0 ? 0 : 1;
}

void run_process(Kick kick) {
  std::vector<std::byte> stack(kStackBytes);
  const pid_t pid = clone(make_request, stack.data() + stack.size(), CLONE_VM | CLONE_VFORK | SIGCHLD, &kick);
  while (pid > 0 && waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
}

}  // namespace

void kick_uring(const std::string& mountpoint, size_t cpu) {
  Kick kick{mountpoint, {}};
  CPU_ZERO(&kick.cpus);
  CPU_SET(cpu, &kick.cpus);
  try {
    std::thread(run_process, std::move(kick)).detach();
  } catch (const std::system_error& error) {
    log::debug("no thread for a request: {}", error.what());
  }
}

}  // namespace brickfs
