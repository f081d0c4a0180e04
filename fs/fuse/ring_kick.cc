// SPDX-License-Identifier: Apache-2.0
#include "fs/fuse/ring_kick.h"

#include <pthread.h>
#include <sched.h>
#include <sys/statfs.h>

#include <system_error>
#include <thread>

#include "transport/base/log.h"

namespace brickfs {
namespace {

// statfs is never answered from the kernel's caches.
void make_request(const std::string& mountpoint, size_t cpu) {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  CPU_SET(cpu, &cpus);
  if (pthread_setaffinity_np(pthread_self(), sizeof(cpus), &cpus) != 0) return;
  struct statfs stat {};
  (void)::statfs(mountpoint.c_str(), &stat);
}

}  // namespace

void kick_ring(const std::string& mountpoint, size_t cpu) {
  try {
    std::thread(make_request, mountpoint, cpu).detach();
  } catch (const std::system_error& error) {
    log::debug("no thread for a request: {}", error.what());
  }
}

}  // namespace brickfs
