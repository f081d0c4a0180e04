// SPDX-License-Identifier: Apache-2.0
// Decides when to write a checkpoint, and does it in the background: when the journal has outgrown a bound (scaled to
// the volume and to the last checkpoint), after about a second of idleness with more than one journal block, and on
// demand.
//
// Order: the journal begins a new block; scan of the tree; the journal is durable past the scan's end (so are the
// chunks); superblock; only then the blocks of the former checkpoint and of the journal's former part are freed. A
// failure at any step leaves the former state in force.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "fs/inode/rows.h"
#include "fs/persistence/journal.h"
#include "fs/persistence/read_times.h"
#include "fs/persistence/superblock.h"
#include "fs/space/space.h"
#include "transport/base/mutex.h"
#include "transport/base/thread.h"
#include "transport/volume/volume_set.h"

namespace brickfs {

// Of the checkpoint in force.
struct CheckpointStat {
  uint64_t blocks = 0;
  std::chrono::steady_clock::time_point began{};  // the writing of it; zero: by a former mount
  std::chrono::nanoseconds took{};
};

class CheckpointThread {
 public:
  struct Parts {
    VolumeSet& volume;
    Space& space;
    Journal& journal;
    std::function<std::unique_ptr<RowSource>()> scan;  // of the whole tree, from its beginning
    std::function<Ino()> next_ino;                     // InodeTable::next_number
    ReadTimes& read_times;                             // of the tree
  };

  // `slots` has read or written `current`, the superblock in force.
  CheckpointThread(Parts parts, SuperblockSlots slots, Superblock current);
  ~CheckpointThread();  // as stop()
  CheckpointThread(const CheckpointThread&) = delete;
  CheckpointThread& operator=(const CheckpointThread&) = delete;

  // Writes the first checkpoint of a new file system at once, so that a quiet volume always has the same blocks.
  void start();
  // Journal::Hooks::on_block_added. Does not wait. May be called before start().
  void journal_grew();
  // Writes one now, unless nothing was journalled or read since the last; from any thread, after or without start().
  // ECANCELED after stop().
  Status run();
  CheckpointStat stat() const;
  // No checkpoint begins any more; waits for the one under way.
  void stop();

 private:
  using Clock = std::chrono::steady_clock;

  void loop();
  void run_or_log();
  void limit_journal();
  bool checkpoint_is_missing() const;
  bool wait_for_tick();
  bool is_due();
  struct JournalBound {
    uint64_t due = 0;    // blocks beyond which a checkpoint is due
    uint64_t limit = 0;  // blocks beyond which operations wait for it
  };
  JournalBound journal_bound() const;
  // The rest is for whoever set running_, one at a time.
  Status write_checkpoint();
  Result<CheckpointPlace> write_rows();
  Status install(CheckpointPlace place, const Journal::Position& position);
  Status free_garbage();

  // Fixed after construction.
  const Parts parts_;

  // The loop's own.
  Lsn seen_{};
  Clock::time_point changed_at_{};  // when seen_ last moved

  // Of whoever set running_.
  SuperblockSlots slots_;
  Superblock current_;
  // Blocks of checkpoints that no copy of the superblock needs once the next write of it has succeeded.
  std::vector<BlockRange> garbage_;

  mutable Mutex mutex_;
  CondVar changed_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool running_ ABSL_GUARDED_BY(mutex_) = false;  // a checkpoint is being written
  bool grew_ ABSL_GUARDED_BY(mutex_) = false;
  int failures_ ABSL_GUARDED_BY(mutex_) = 0;                // in a row
  Clock::time_point not_before_ ABSL_GUARDED_BY(mutex_){};  // after a failure
  CheckpointStat stat_ ABSL_GUARDED_BY(mutex_);
  Thread thread_;
};

}  // namespace brickfs
