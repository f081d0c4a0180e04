// SPDX-License-Identifier: Apache-2.0
// Where one worker gets the kernel's requests from: /dev/fuse (fs/fuse/serve/device_source.h) or io_uring
// (fs/fuse/serve/uring_source.h).
//
// Threads: one, the worker's.
#pragma once

#include <vector>

#include "fs/fuse/protocol/request.h"
#include "transport/base/result.h"

namespace brickfs {

class RequestSource {
 public:
  virtual ~RequestSource() = default;

  // Waits for requests, and adds those that are this worker's to serve: any number of small ones, which go together,
  // and others. EINTR: there was nothing, or it is time to look whether to end. ENODEV: the connection has ended. Other
  // errors: the kernel will have no requests served this way.
  virtual Status receive(std::vector<FuseRequest*>& requests) = 0;
  // To another worker, which serves it by itself. False: none has time.
  virtual bool pass(FuseRequest& request) = 0;
  // It is going to be served, and may take as long as the brick is away: others take what comes meanwhile.
  virtual void begin_alone(const FuseRequest& request) = 0;
  // It has been answered, and nobody else is at it: its memory is free for the next one.
  virtual Status give_back(FuseRequest& request) = 0;
  // As long as this worker is at something, requests may wait that nobody else sees.
  virtual bool hides_requests() const { return false; }
  // Nobody counts on this worker to go on.
  virtual bool may_end() const { return true; }
  // For the end: what others have passed to anybody; null: nothing (more).
  virtual FuseRequest* last() { return nullptr; }
  // Nothing is received any more; what was given back has been answered.
  virtual void close() {}
};

}  // namespace brickfs
