// SPDX-License-Identifier: Apache-2.0
// The insides of Space. space.cc: what callers ask for; block_supply.cc: the thread that keeps blocks ahead and gives
// empty ones back. Included by these two only.
#pragma once

#include <atomic>
#include <chrono>
#include <deque>
#include <string>
#include <vector>

#include "fs/space/block_budget.h"
#include "fs/space/data_blocks.h"
#include "fs/space/space.h"
#include "fs/space/writeback_reserve.h"
#include "transport/base/mutex.h"
#include "transport/base/thread.h"

namespace brickfs {

inline bool is_out_of_space(const Status& status) { return status.code() == ENOSPC || status.code() == EDQUOT; }

class Space::Impl {
 public:
  explicit Impl(VolumeClient& volume_in)
      : volume(volume_in), budget(volume_in.session().capacity_blocks, volume_in.session().memory_blocks) {}

  // --- space.cc
  Result<std::vector<UnitRun>> allocate(uint64_t units, uint64_t goal, const Interruption* by, For what)
      ABSL_LOCKS_EXCLUDED(mutex);
  Result<BlockRange> allocate_metadata(uint64_t blocks) ABSL_LOCKS_EXCLUDED(mutex);
  Status free_metadata(BlockRun blocks) ABSL_LOCKS_EXCLUDED(mutex);
  void raise_durable(Lsn lsn);
  void reap() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  uint64_t free_now() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);

  // --- block_supply.cc
  Status first_supply() ABSL_LOCKS_EXCLUDED(mutex);  // on the caller's thread, before supply_loop() runs
  void supply_loop() ABSL_LOCKS_EXCLUDED(mutex);
  Status give_all_back() ABSL_LOCKS_EXCLUDED(mutex);  // after it ended: what data does not use
  // Waits until a call to the brick has ended that may have brought blocks; `demand`: so many are needed. Its error;
  // EINTR.
  Status wait_for_supply(MutexLock& lock, uint64_t demand, const Interruption* by = nullptr)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // Calls to the brick for blocks that `budget` has begun to allocate or to free; the mutex is given up meanwhile. What
  // becomes of blocks whose call was not answered is settled later: they are freed, if they are there.
  Status alloc_on_brick(BlockRun blocks) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  Status free_on_brick(BlockRun blocks) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  void note_block_taken() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  void note_progress(const Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);

  using Clock = std::chrono::steady_clock;
  struct Freed {
    Lsn by;
    UnitRun run;
  };

  CondVar settled;  // the reserve for write-back
  WritebackReserve reserve ABSL_GUARDED_BY(mutex);
  std::function<void()> on_short;  // changed while nothing is being allocated

  // Fixed after start().
  VolumeClient& volume;
  Hooks hooks;
  Thread supply_thread;

  mutable Mutex mutex;
  CondVar supply_wanted;  // for the supply thread
  CondVar supplied;       // for those who wait for it
  BlockBudget budget ABSL_GUARDED_BY(mutex);
  DataBlocks data ABSL_GUARDED_BY(mutex);
  std::deque<Freed> freed ABSL_GUARDED_BY(mutex);  // not yet durably; still in use in `data`
  std::atomic<uint64_t> freed_units{0};            // in it; changed under the mutex
  std::deque<BlockRun> in_doubt
      ABSL_GUARDED_BY(mutex);  // nobody's, perhaps on the brick: a call that failed, to free them or to get them
  uint64_t promised_units ABSL_GUARDED_BY(mutex) = 0;  // to allocations under way, not yet taken
  std::atomic<Lsn> durable{};

  // Of the supply.
  uint64_t ahead ABSL_GUARDED_BY(mutex) = 0;   // wanted for data while busy
  uint64_t demand ABSL_GUARDED_BY(mutex) = 0;  // blocks that allocations wait for
  uint64_t calls_done ABSL_GUARDED_BY(mutex) = 0;
  uint64_t calls_failed ABSL_GUARDED_BY(mutex) = 0;
  Error last_failure ABSL_GUARDED_BY(mutex){0};
  uint64_t trims_wanted ABSL_GUARDED_BY(mutex) = 0;
  uint64_t trims_done ABSL_GUARDED_BY(mutex) = 0;
  bool refresh_wanted ABSL_GUARDED_BY(mutex) = false;  // ask the brick what it can give
  bool stopping ABSL_GUARDED_BY(mutex) = false;
  Clock::time_point last_taken ABSL_GUARDED_BY(mutex){};
  Clock::time_point last_fetch ABSL_GUARDED_BY(mutex){};
  Clock::time_point last_refresh ABSL_GUARDED_BY(mutex){};
  std::string trouble ABSL_GUARDED_BY(mutex);           // of the brick's store, as it last said
  Clock::time_point retry_at ABSL_GUARDED_BY(mutex){};  // after a failed call

  // The brick is asked again what it can give, unless it was just now.
  void want_refresh() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);

 private:
  Status keep_reserve(MutexLock& lock, uint64_t units, const Interruption* by, For what)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  void take(UnitRun run, uint64_t& need, std::vector<UnitRun>& runs) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  Status promise(MutexLock& lock, uint64_t units, const Interruption* by) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  void take_well_placed(uint64_t goal, uint64_t& need, std::vector<UnitRun>& runs) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  Status take_promised(MutexLock& lock, uint64_t goal, uint64_t& need, std::vector<UnitRun>& runs,
                       const Interruption* by) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  bool supply_can_bring() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);

  // One call to the brick, if one is due; the mutex is given up during it.
  bool supply_step() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  bool is_quiet() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  uint64_t wanted_ahead() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  uint64_t blocks_to_fetch() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  std::optional<BlockRun> next_to_return() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  void fetch(uint64_t blocks) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  Status return_blocks(BlockRun blocks) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  Status settle_doubt() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  void refresh() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
};

}  // namespace brickfs
