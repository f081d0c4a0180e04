// SPDX-License-Identifier: Apache-2.0
// Has each request served by the operation for it, or refused.
//
// Threads: any.
#pragma once

#include <functional>

#include "fs/fuse/interrupt/interrupts.h"
#include "fs/fuse/protocol/operations.h"

namespace brickfs {

class FuseDispatcher {
 public:
  // Both outlive it. `on_begun`: called once the kernel and we have told each other what we can do.
  FuseDispatcher(FuseSession& session, FuseInterrupts& interrupts, std::function<void()> on_begun);

  // On return it has been answered, or was put aside.
  void serve(FuseRequest& request) const;
  // Of a volume that is lost for good (taken over; or its brick has lost it): nothing of it is told from memory any
  // more, as programs would take that for what is there. The root's attributes and statfs(2) are still told, and what
  // the mount says of itself, so that it can be looked at and unmounted.
  Status refusal() const;

 private:
  void interrupt(FuseRequest& request) const;
  void begin_session(FuseRequest& request) const;

  FuseSession& session_;
  FuseInterrupts& interrupts_;
  const std::function<void()> on_begun_;
};

}  // namespace brickfs
