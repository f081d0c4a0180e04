// SPDX-License-Identifier: Apache-2.0
// Requests for few bytes that one worker has at hand at the same time: their bytes travel together, then all are
// answered. docs/decisions, 46.
//
// Threads: one.
#pragma once

#include <span>
#include <vector>

#include "fs/fuse/protocol/operations.h"
#include "fs/operations/joint_transfer.h"

namespace brickfs {

class SmallRequests {
 public:
  // `context`: of all of them.
  explicit SmallRequests(FuseSession& session, const OperationContext& context = {});
  SmallRequests(const SmallRequests&) = delete;
  SmallRequests& operator=(const SmallRequests&) = delete;

  // False: it has to be served by itself, after this has gone.
  bool add(FuseRequest& request);
  const std::vector<FuseRequest*>& added() const { return added_; }
  // Once: all that were added are answered. False: none is, they were interrupted.
  bool finish();
  // The same if it can be done at once. False: none is answered.
  bool try_to_finish();

 private:
  void answer_all(const Status& moved);

  FuseSession& session_;
  const std::unique_ptr<JointTransfer> transfer_;
  std::vector<FuseRequest*> added_;
};

}  // namespace brickfs
