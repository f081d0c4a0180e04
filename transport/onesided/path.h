// SPDX-License-Identifier: Apache-2.0
// One address of the brick and what a session has there: connections for calls, and queue pairs, which the session's
// DataPath keeps. A lost path is replaced by a new one. Threads: fixed after construction, except as said.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "transport/brick/source.h"
#include "transport/onesided/connector.h"
#include "transport/onesided/data_path.h"
#include "transport/remote/call_channel.h"

namespace brickfs::onesided {

struct Path {
  HostPort address;
  std::string device;   // "rxe0"
  std::string handles;  // what they are, on the brick
  std::shared_ptr<CallChannel> calls;
  std::unique_ptr<CallChannel> commits;  // none for an observer
  // The keeper's once the path is in place.
  std::vector<std::unique_ptr<ConnectionEnd>> pair_ends;  // they go after the queue pairs
  DataPath::QueuePairBits pairs = 0;                      // that the brick has offered
  // Any thread's.
  std::atomic<bool> lost{false};  // no call goes this way any more
  std::atomic<bool> shut{false};  // and the keeper has cleared it away

  void shut_down() {
    calls->shut_down();
    if (commits) commits->shut_down();
  }
};

}  // namespace brickfs::onesided
