// SPDX-License-Identifier: Apache-2.0
// What serving a mount's requests takes: its file system, what has been agreed on with the kernel, what the kernel
// caches, and who may ask. How it came to be mounted is FuseMount's business.
//
// Threads: any, once it is connected.
#pragma once

#include <sys/types.h>

#include <memory>

#include "fs/fuse/cache/kernel_cache.h"
#include "fs/fuse/cache/writeback_cache.h"
#include "fs/fuse/protocol/negotiation.h"
#include "fs/fuse/protocol/operation_counters.h"
#include "fs/operations/file_operations.h"

namespace brickfs {

class FuseSession {
 public:
  struct Rules {
    bool writeback_cache = false;
    bool syncs_names = false;          // a change of names is durable before it is answered for
    bool only_owner_and_root = false;  // may make requests, but for what is open already
    uid_t owner = 0;
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
  bool syncs_names() const { return rules_.syncs_names; }
  bool may_ask(uid_t uid) const { return !rules_.only_owner_and_root || uid == 0 || uid == rules_.owner; }

 private:
  FileOperations& files_;
  const Rules rules_;
  FuseNegotiation negotiation_;
  KernelCache cache_;
  const std::shared_ptr<OperationCounters> operations_ = std::make_shared<OperationCounters>();
  std::unique_ptr<WritebackCache> writeback_;
};

}  // namespace brickfs
