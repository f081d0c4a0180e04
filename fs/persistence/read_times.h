// SPDX-License-Identifier: Apache-2.0
// Inodes whose time of reading is newer in memory than in the journal: reading journals nothing. The time goes along
// with the inode's next row: of its next change, its next sync, or the next checkpoint, which a clean end writes if
// there are any here. As lazytime: a crash may take it back.
//
// Threads: any; one scan at a time.
#pragma once

#include <vector>

#include "absl/container/flat_hash_set.h"
#include "fs/base/ids.h"
#include "transport/base/mutex.h"

namespace brickfs {

class ReadTimes {
 public:
  // Under the inode's lock, once it has the new time.
  void add(Ino ino);
  // Whether it is here. It is no longer: the caller journals it.
  bool take(Ino ino);
  std::vector<Ino> all() const;
  bool empty() const;

  // Of all inodes, for a checkpoint. Those that were here before it are here until it is durable.
  void begin_scan();
  void end_scan(bool durable);

 private:
  mutable Mutex mutex_;
  absl::flat_hash_set<Ino> newer_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_set<Ino> scanned_ ABSL_GUARDED_BY(mutex_);  // their times are in what is being written
};

}  // namespace brickfs
