// SPDX-License-Identifier: Apache-2.0
// Decides when to write a checkpoint, and does it in the background: when the journal has outgrown a bound (scaled to
// the volume and to the last checkpoint), after about a second of idleness with more than one journal block, and on demand.
//
// Order: the journal begins a new block; scan of the tree; the journal is durable past the scan's end (so are the chunks);
// superblock; only then the blocks of the former checkpoint and of the journal's former part are freed. A failure at any step
// leaves the former state in force.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "fs/journal.h"
#include "fs/rows.h"
#include "fs/space.h"
#include "fs/superblock.h"
#include "transport/base/mutex.h"
#include "transport/volume_client.h"

namespace brickfs {

class CheckpointThread {
 public:
  struct Parts {
    VolumeClient& volume;
    Space& space;
    Journal& journal;
    std::function<std::unique_ptr<RowSource>()> scan;  // of the whole tree, from its beginning
    std::function<Ino()> next_ino;                     // InodeTable::next_number
  };

  // `slots` has read or written `current`, the superblock in force.
  CheckpointThread(Parts parts, SuperblockSlots slots, Superblock current);
  ~CheckpointThread();  // as stop()
  CheckpointThread(const CheckpointThread&) = delete;
  CheckpointThread& operator=(const CheckpointThread&) = delete;

  void start();
  // Journal::Hooks::on_block_added. Does not wait. May be called before start().
  void journal_grew();
  // Writes one now, unless nothing was journalled since the last; from any thread, after or without start().
  Status run();
  // No checkpoint begins any more; waits for the one under way.
  void stop();

 private:
  void loop();
  bool is_due() const;
  std::chrono::milliseconds pause_before_next() const;
  Status write_checkpoint();
  Status install(const CheckpointPlace& place, const Journal::Position& position);
  Status free_garbage();

  // Fixed after construction.
  const Parts parts_;

  // One checkpoint at a time; held across it.
  Mutex run_mutex_;
  SuperblockSlots slots_ ABSL_GUARDED_BY(run_mutex_);
  Superblock current_ ABSL_GUARDED_BY(run_mutex_);
  // Of checkpoints that no superblock needs once the next write of one has succeeded.
  std::vector<BlockRange> garbage_ ABSL_GUARDED_BY(run_mutex_);

  mutable Mutex mutex_;
  CondVar changed_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool grew_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t failures_ ABSL_GUARDED_BY(mutex_) = 0;      // in a row
  uint64_t bound_blocks_ ABSL_GUARDED_BY(mutex_) = 0;  // of the journal
  std::thread thread_;
};

}  // namespace brickfs
