// SPDX-License-Identifier: Apache-2.0
// What serving a mount's requests takes (FuseSession), and who has each served (FuseDispatcher).
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>

#include "fs/fuse/cache/kernel_cache.h"
#include "fs/fuse/cache/writeback_cache.h"
#include "fs/fuse/interrupt/interrupts.h"
#include "fs/fuse/protocol/negotiation.h"
#include "fs/fuse/protocol/operation_counters.h"
#include "fs/fuse/protocol/operations.h"
#include "fs/fuse/serve/locks.h"
#include "fs/fuse/serve/sharing.h"
#include "fs/operations/file_operations.h"

namespace brickfs {

// What serving a mount's requests takes: its file system, what has been agreed on with the kernel, what the kernel
// caches, and who may ask. How it came to be mounted is FuseMount's business.
//
// Threads: any, once it is connected.
class FuseSession {
 public:
  struct Rules {
    bool writeback_cache = false;
    bool syncs_names = false;          // a change of names is durable before it is answered for
    bool only_owner_and_root = false;  // may make requests, but for what is open already
    uid_t owner = 0;
    Sharing sharing = Sharing::kNone;  // with which no write-back cache is had
  };

  FuseSession(FileOperations& files, const Rules& rules);
  ~FuseSession();
  FuseSession(const FuseSession&) = delete;
  FuseSession& operator=(const FuseSession&) = delete;
  // To the kernel, by a connection that stays open. Before the first request is served.
  void connect(int device) { cache_.connect(device); }
  // Nothing of the kernel's caches is waited for any more. While requests are served.
  void stop();

  FileOperations& files() const { return files_; }
  KernelCache& cache() { return cache_; }
  OperationCounters& operations() { return *operations_; }  // that were answered
  std::shared_ptr<const OperationCounters> shared_operations() const { return operations_; }
  FuseNegotiation& negotiation() { return negotiation_; }
  // Null: the kernel's write-back cache is off.
  WritebackCache* writeback() const { return writeback_.get(); }
  FuseSharing& sharing() { return sharing_; }
  FuseLocks& locks() { return locks_; }
  // Of a coordinator. Other machines may change names and attributes from its return on: the kernel holds none any more
  // and will keep none. Or they no longer do. Waits for requests under way: while they are served, and not on a serving
  // thread; one at a time.
  void set_members(bool has_members);
  bool syncs_names() const { return rules_.syncs_names; }
  bool may_ask(uid_t uid) const { return !rules_.only_owner_and_root || uid == 0 || uid == rules_.owner; }

 private:
  FileOperations& files_;
  const Rules rules_;
  FuseNegotiation negotiation_;
  FuseSharing sharing_;
  KernelCache cache_;
  const std::shared_ptr<OperationCounters> operations_ = std::make_shared<OperationCounters>();
  std::unique_ptr<WritebackCache> writeback_;
  FuseLocks locks_;
};

// Has each request served by the operation for it, or refused.
//
// Threads: any.
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
