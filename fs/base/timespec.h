// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <time.h>

#include <cstdint>

#include "fs/base/ids.h"

namespace brickfs {

constexpr int64_t kNsPerSecond = 1'000'000'000;

timespec to_timespec(TimeNs time);
// Beyond what 64 bits of nanoseconds hold (1677 to 2262): the nearest that they do, as Linux clamps times.
TimeNs to_time_ns(const timespec& time);

}  // namespace brickfs
