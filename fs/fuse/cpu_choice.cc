// SPDX-License-Identifier: Apache-2.0
#include "fs/fuse/cpu_choice.h"

#include <pthread.h>
#include <sched.h>

namespace brickfs {
namespace {

constexpr unsigned kAloneBeforeReturn = 16;

}  // namespace

void FuseCpuChoice::begin() {
  const bool alone = serving_.fetch_add(1) == 0;
  alone_ = alone ? alone_ + 1 : 0;
  if (!alone) {
    go(Place::kAnywhere);
  } else if (place_ == Place::kUnset || alone_ >= kAloneBeforeReturn) {
    go(Place::kOwnCpu);
  }
}

// Best effort: the CPU may be offline, or not for this process.
void FuseCpuChoice::go(Place place) {
  if (place == place_) return;
  place_ = place;
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  for (size_t cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (place == Place::kAnywhere || cpu == cpu_) CPU_SET(cpu, &cpus);
  }
  (void)pthread_setaffinity_np(pthread_self(), sizeof(cpus), &cpus);
}

}  // namespace brickfs
