// SPDX-License-Identifier: Apache-2.0
// Who serves what of the requests that one CPU makes over io_uring. It has as many threads as entries.
//
// A request for few bytes goes to the *collector*, if there is one: the thread that is at such requests already, and
// serves what was passed to it meanwhile all at once. With the request goes its entry: under many requests at a time
// one thread comes to have most entries, and the others sleep. What else comes to a thread with more than one entry it
// leaves to one that has none. So no thread that is held up keeps requests from others, and who serves one request at a
// time does so by itself. docs/decisions, 46.
//
// Threads: any.
#pragma once

#include <cstddef>
#include <deque>
#include <vector>

#include "fs/fuse/serve/uring_request.h"
#include "transport/base/mutex.h"

namespace brickfs {

class FuseUringQueue {
 public:
  // A request for few bytes. True: the calling thread is the collector from now on. False: another one is, and has it.
  bool collect_or_pass(FuseUringRequest& entry);
  // For the collector: adds what was passed to it. False: there was nothing, and it is the collector no longer.
  bool take_passed(std::vector<FuseUringRequest*>& requests);
  // For the collector: it is that no longer; what was passed is left.
  void resign();

  // To a thread without an entry. False: after stop(), the caller has to serve it.
  bool leave(FuseUringRequest& entry);
  // For such a one: what was left. Null: nothing, after stop().
  FuseUringRequest* wait();
  void stop();

 private:
  Mutex mutex_;
  CondVar left_something_;
  bool collecting_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<FuseUringRequest*> passed_ ABSL_GUARDED_BY(mutex_);
  std::deque<FuseUringRequest*> left_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace brickfs
