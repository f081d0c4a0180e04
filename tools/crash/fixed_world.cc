// SPDX-License-Identifier: Apache-2.0
#include "tools/crash/fixed_world.h"

#include <sys/random.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>

#include "fs/operations/filesystem_state.h"
#include "tools/crash/fibers.h"
#include "transport/base/check.h"

namespace brickfs {
namespace {

constexpr int64_t kBeginning = 1'700'000'000'000'000'000;
constexpr int64_t kStep = 1'000'000;

std::atomic<int64_t> clock{kBeginning};
uint64_t random_state = 0;  // 0: always the same

}  // namespace

void check_clock() {
  const auto before = fibers::now();
  const auto seen = std::chrono::steady_clock::now().time_since_epoch();
  CHECK(before < seen && seen < fibers::now());
}

void set_random(uint64_t seed) { random_state = seed * 2 + 1; }

void set_clock_back() { clock = kBeginning; }

double real_seconds() {
  timespec now{};
  syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

TimeNs now() { return TimeNs{clock.fetch_add(kStep)}; }

}  // namespace brickfs

extern "C" ssize_t getrandom(void* buffer, size_t length, unsigned) {
  std::memset(buffer, 0x5a, length);
  for (size_t i = 0; i < length && brickfs::random_state != 0; ++i) {
    brickfs::random_state = brickfs::random_state * 6364136223846793005 + 1442695040888963407;
    static_cast<unsigned char*>(buffer)[i] = static_cast<unsigned char>(brickfs::random_state >> 56);
  }
  return static_cast<ssize_t>(length);
}

// What std::chrono's clocks ask, which are in a library: it must be seen there. The time of day is in superblocks.
extern "C" [[gnu::visibility("default")]] int clock_gettime(clockid_t clock, timespec* into) noexcept {
  if (clock != CLOCK_MONOTONIC && clock != CLOCK_BOOTTIME && clock != CLOCK_REALTIME)
    return static_cast<int>(syscall(SYS_clock_gettime, clock, into));
  const int64_t now = brickfs::fibers::now().count();
  *into = {.tv_sec = now / 1'000'000'000, .tv_nsec = now % 1'000'000'000};
  return 0;
}

// What std::this_thread's sleeps ask: others go on meanwhile.
extern "C" int nanosleep(const timespec* time, timespec*) {
  brickfs::fibers::sleep(std::chrono::seconds(time->tv_sec) + brickfs::fibers::Nanoseconds(time->tv_nsec));
  return 0;
}

// A simulated thread has no priority of its own.
extern "C" int setpriority(__priority_which_t, id_t, int) noexcept { return 0; }
