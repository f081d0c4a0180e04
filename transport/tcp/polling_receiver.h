// SPDX-License-Identifier: Apache-2.0
// Receives what comes soon without going to sleep for it: on a fast network a small transfer's answer is there before a
// thread is asleep and awake again.
//
// Threads: one at a time.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <span>

#include "transport/base/result.h"
#include "transport/base/short_wait.h"
#include "transport/tcp/stream.h"

namespace brickfs::tcp {

class PollingReceiver {
 public:
  // As receive_some(). `alone`: nothing else is under way that a processor could do meanwhile.
  Result<size_t> receive_some(Stream& stream, std::span<const iovec> parts, bool alone);

 private:
  // What took longer than a poll, a sleep and a wake-up is not worth polling for.
  ShortWait wait_{ShortWait::kForMessage};
};

}  // namespace brickfs::tcp
