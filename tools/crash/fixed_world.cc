// SPDX-License-Identifier: Apache-2.0
#include "tools/crash/fixed_world.h"

#include <sys/random.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstring>

#include "fs/operations/filesystem_state.h"
#include "tools/crash/fibers.h"

namespace brickfs {
namespace {

constexpr int64_t kBeginning = 1'700'000'000'000'000'000;
constexpr int64_t kStep = 1'000'000;

std::atomic<int64_t> clock{kBeginning};

}  // namespace

void set_clock_back() { clock = kBeginning; }

double real_seconds() {
  timespec now{};
  syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

TimeNs now() { return TimeNs{clock.fetch_add(kStep)}; }

}  // namespace brickfs

extern "C" ssize_t getrandom(void* buffer, size_t length, unsigned) noexcept {
  std::memset(buffer, 0x5a, length);
  return static_cast<ssize_t>(length);
}

// What std::chrono's clocks ask.
extern "C" int clock_gettime(clockid_t clock, timespec* into) noexcept {
  if (clock != CLOCK_MONOTONIC) return static_cast<int>(syscall(SYS_clock_gettime, clock, into));
  const int64_t now = brickfs::fibers::now().count();
  *into = {.tv_sec = now / 1'000'000'000, .tv_nsec = now % 1'000'000'000};
  return 0;
}
