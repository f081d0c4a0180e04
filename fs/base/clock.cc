// SPDX-License-Identifier: Apache-2.0
#include "fs/base/clock.h"

#include <ctime>

namespace brickfs {

TimeNs now() {
  timespec time{};
  clock_gettime(CLOCK_REALTIME_COARSE, &time);
  return TimeNs{time.tv_sec * 1'000'000'000 + time.tv_nsec};
}

}  // namespace brickfs
