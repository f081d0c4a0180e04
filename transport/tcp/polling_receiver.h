// SPDX-License-Identifier: Apache-2.0
// Receives what comes soon without going to sleep for it. On a fast network a small transfer's answer is there before a
// thread is asleep and awake again; where the last wait was long, the next one sleeps at once, so that an idle connection
// costs nothing. docs/decisions.md, 34.
//
// Threads: one at a time.
#pragma once

#include <sys/uio.h>

#include <chrono>
#include <cstddef>
#include <span>

#include "transport/base/result.h"

namespace brickfs::tcp {

class PollingReceiver {
 public:
  // As receive_some(). `alone`: nothing else is under way that a processor could do meanwhile.
  Result<size_t> receive_some(int fd, std::span<const iovec> parts, bool alone);

 private:
  std::chrono::nanoseconds last_wait_{0};
};

}  // namespace brickfs::tcp
