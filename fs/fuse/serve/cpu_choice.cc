// SPDX-License-Identifier: Apache-2.0
#include "fs/fuse/serve/cpu_choice.h"

#include <pthread.h>
#include <sched.h>

namespace brickfs {
namespace {

constexpr unsigned kAloneBeforeReturn = 16;

}  // namespace

FuseCpuChoice::FuseCpuChoice(size_t cpu, std::atomic<unsigned>& serving) : cpu_(cpu), serving_(serving) {
  CPU_ZERO(&allowed_);
  CPU_ZERO(&chosen_);
  (void)pthread_getaffinity_np(pthread_self(), sizeof(allowed_), &allowed_);
}

void FuseCpuChoice::begin() {
  const bool alone = serving_.fetch_add(1) == 0;
  alone_ = alone ? alone_ + 1 : 0;
  if (!alone) {
    go(Place::kAnywhere);
  } else if (place_ == Place::kUnset || alone_ >= kAloneBeforeReturn) {
    go(Place::kOwnCpu);
  }
}

// Where the thread runs is not where it was put: somebody has put it there.
void FuseCpuChoice::look_for_others_choice() {
  cpu_set_t now;
  CPU_ZERO(&now);
  if (pthread_getaffinity_np(pthread_self(), sizeof(now), &now) != 0) return;
  if (place_ != Place::kUnset && !CPU_EQUAL(&now, &chosen_)) allowed_ = now;
}

// Best effort: the CPU may be offline, or not for this process.
void FuseCpuChoice::go(Place place) {
  if (place == place_) return;
  look_for_others_choice();
  place_ = place;
  cpu_set_t own;
  CPU_ZERO(&own);
  if (cpu_ < CPU_SETSIZE) CPU_SET(cpu_, &own);
  CPU_AND(&own, &own, &allowed_);
  const cpu_set_t& wanted = place == Place::kOwnCpu && CPU_COUNT(&own) > 0 ? own : allowed_;
  (void)pthread_setaffinity_np(pthread_self(), sizeof(wanted), &wanted);
  (void)pthread_getaffinity_np(pthread_self(), sizeof(chosen_), &chosen_);
}

}  // namespace brickfs
