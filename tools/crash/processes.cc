// SPDX-License-Identifier: Apache-2.0
#include "tools/crash/processes.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <vector>

namespace brickfs {

uint64_t run_in_processes(uint64_t processes, const std::function<void(uint64_t number)>& work) {
  std::vector<pid_t> workers;
  std::fflush(stdout);
  for (uint64_t number = 0; number < processes; ++number) {
    const pid_t worker = fork();
    CHECK(worker >= 0);
    if (worker == 0) {
      work(number);
      std::fflush(stdout);
      _exit(0);
    }
    workers.push_back(worker);
  }
  uint64_t failed = 0;
  for (const pid_t worker : workers) {
    int status = 0;
    CHECK(waitpid(worker, &status, 0) == worker);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) ++failed;
  }
  return failed;
}

}  // namespace brickfs
