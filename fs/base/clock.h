// SPDX-License-Identifier: Apache-2.0
// What time it is for stamps, and when one of reading is due.
#pragma once

#include <cstdint>

#include "fs/base/ids.h"

namespace brickfs {

TimeNs now();  // of the real-time clock, as the kernel stamps (coarse)

// Linux's relatime: often enough to tell whether a file was read since it was changed, and once a day.
constexpr bool is_relatime_due(TimeNs atime, TimeNs mtime, TimeNs ctime, TimeNs now) {
  constexpr int64_t kDay = int64_t{24} * 3600 * 1'000'000'000;
  return atime <= mtime || atime <= ctime || static_cast<int64_t>(atime) <= static_cast<int64_t>(now) - kDay;
}

}  // namespace brickfs
