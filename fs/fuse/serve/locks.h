// SPDX-License-Identifier: Apache-2.0
// Locks that programs of a mount set (-o shared): who may have some, so that the file system is told of the closing of
// those files alone, and who waits for one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "fs/base/ids.h"
#include "fs/fuse/protocol/request.h"
#include "fs/operations/file_operations.h"
#include "transport/base/interruption.h"
#include "transport/base/mutex.h"

namespace brickfs {

// A lock that another has is waited for on a thread of its own: for hours, if need be, and others are served meanwhile.
// FUSE_INTERRUPT, of any signal, ends that with EINTR.
//
// Threads: any.
class FuseLocks {
 public:
  static constexpr size_t kMostWaiting = 4096;  // more get ENOLCK

  // `files` outlives it.
  explicit FuseLocks(FileOperations& files) : files_(files) {}
  ~FuseLocks() { stop(); }
  FuseLocks(const FuseLocks&) = delete;
  FuseLocks& operator=(const FuseLocks&) = delete;

  // Answers the request, perhaps later by another thread.
  void set(FuseRequest& request, const LockRequest& lock, bool waits);
  // The owner closes a descriptor of the open file.
  Status close(Ino ino, uint64_t owner, uint64_t open_file, const OperationContext& context);
  // It was the last.
  void release(Ino ino, uint64_t open_file);
  // FUSE_INTERRUPT. False: that request waits for no lock.
  bool interrupt(uint64_t unique);
  // Nobody waits any more; who does is told EIO.
  void stop();

 private:
  struct Waiting {
    LockRequest lock = {};
    Interruption interruption = {};
    FuseRequest::Answer answer = {};
    std::thread thread = {};
  };

  void set_waiting(FuseRequest& request, const LockRequest& lock);
  Status begin(uint64_t unique, const std::shared_ptr<Waiting>& waiting);
  void end(uint64_t unique);
  Status start_thread(uint64_t unique, Waiting& waiting);
  void wait(uint64_t unique, Waiting& waiting);
  Status set_noted(const LockRequest& lock, bool waits, const OperationContext& context);
  void note(const LockRequest& lock);

  FileOperations& files_;
  Mutex mutex_;
  CondVar changed_;
  // They may have locks: more of them do no harm.
  absl::flat_hash_set<std::pair<Ino, uint64_t>> owners_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_set<uint64_t> open_files_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<uint64_t, std::shared_ptr<Waiting>> waiting_ ABSL_GUARDED_BY(mutex_);  // by the request
  std::vector<std::shared_ptr<Waiting>> ended_ ABSL_GUARDED_BY(mutex_);                      // of whom threads are left
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace brickfs
