// SPDX-License-Identifier: Apache-2.0
// Files with a deferred truncation: units still hold what was cut off, the rest of a last unit behind a truncation, or
// what a zeroed range held. Until the transaction that cut it off is durable, a crash may bring the content back; so
// nothing is written over it before (the file would come back with bytes of its future in its past).
// Threads: any.
#pragma once

#include <atomic>

#include "absl/container/flat_hash_map.h"
#include "fs/base/ids.h"
#include "fs/persistence/journal.h"
#include "transport/base/mutex.h"

namespace brickfs {

class DeferredTruncations {
 public:
  void note(Ino ino, Lsn truncated_by, Lsn durable);
  // Before such units are written in place. Without an inode lock. The journal's error; EINTR.
  Status wait_until_durable(Ino ino, Journal& journal, const Interruption* by);

 private:
  std::atomic<bool> any_{false};
  Mutex mutex_;
  absl::flat_hash_map<Ino, Lsn> files_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace brickfs
