// SPDX-License-Identifier: Apache-2.0
#include "tools/crash/fixed_world.h"

#include <sys/random.h>

#include <atomic>
#include <cstdint>
#include <cstring>

#include "fs/filesystem_state.h"

namespace brickfs {
namespace {

constexpr int64_t kBeginning = 1'700'000'000'000'000'000;
constexpr int64_t kStep = 1'000'000;

std::atomic<int64_t> clock{kBeginning};

}  // namespace

void set_clock_back() { clock = kBeginning; }

TimeNs now() { return TimeNs{clock.fetch_add(kStep)}; }

}  // namespace brickfs

extern "C" ssize_t getrandom(void* buffer, size_t length, unsigned) noexcept {
  std::memset(buffer, 0x5a, length);
  return static_cast<ssize_t>(length);
}
