// SPDX-License-Identifier: Apache-2.0
// The insides of Space. space.cc: what callers ask for; lent_units.cc: what others fill; block_supply.cc: the threads,
// one for each brick, that keep blocks ahead and give empty ones back. Included by these only.
#pragma once

#include <atomic>
#include <chrono>
#include <deque>
#include <memory>
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
  using Clock = std::chrono::steady_clock;

  // The blocks on one brick of the set, and the thread that gets them from it and gives them back. Of all but what is
  // fixed: guarded by `mutex`.
  struct Supply {
    Supply(Place& brick_in, BlockRun addresses_in, BlockBudget::For what);

    // Fixed.
    Place& brick;
    const BlockRun addresses;  // of the blocks that are there
    Thread thread;

    CondVar wanted;  // for the thread
    BlockBudget budget;
    std::vector<BlockRun>
        unused;  // found on the brick, nobody's: until first_supply() has settled what becomes of them
    std::deque<BlockRun> in_doubt;  // nobody's, perhaps on the brick: a call that failed, to free them or to get them
    double credit = 0;              // the most goes next (next_place)
    uint64_t ahead = 0;             // wanted for data while busy
    uint64_t demand = 0;            // blocks that allocations wait for
    uint64_t calls_done = 0;
    uint64_t calls_failed = 0;
    Error last_failure{0};
    uint64_t trims_done = 0;
    bool refresh_wanted = false;  // ask the brick what it can give
    Clock::time_point last_taken{};
    Clock::time_point last_fetch{};
    Clock::time_point last_refresh{};
    std::string trouble;           // of the brick's store, as it last said
    Clock::time_point retry_at{};  // after a failed call
  };

  explicit Impl(VolumeSet& volume_in);

  // --- space.cc
  Result<std::vector<UnitRun>> allocate(uint64_t units, uint64_t goal, const Interruption* by, For what)
      ABSL_LOCKS_EXCLUDED(mutex);
  Result<BlockRange> allocate_metadata(uint64_t blocks) ABSL_LOCKS_EXCLUDED(mutex);
  Status free_metadata(BlockRun blocks) ABSL_LOCKS_EXCLUDED(mutex);
  void raise_durable(Lsn lsn);
  void reap() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  uint64_t free_now() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);

  // --- lent_units.cc
  std::vector<UnitRun> lend(uint64_t blocks) ABSL_LOCKS_EXCLUDED(mutex);
  bool may_lend() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  std::optional<UnitRun> take_block() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // The mutex is given up meanwhile. False: nothing is lent that could come back.
  bool ask_back(const Interruption* by) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);

  // --- block_supply.cc
  void sort_by_place(std::span<const BlockRange> unused) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // On the caller's thread, before supply_loop() runs.
  Status first_supply(Supply& supply, bool unused_are_zeros) ABSL_LOCKS_EXCLUDED(mutex);
  void supply_loop(Supply& supply) ABSL_LOCKS_EXCLUDED(mutex);
  bool end_supplies() ABSL_LOCKS_EXCLUDED(mutex);
  Status give_all_back() ABSL_LOCKS_EXCLUDED(mutex);          // after it ended: what neither data nor the reserve needs
  void tell_supplies() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);  // there may be empty blocks
  // Waits until a call to the brick has ended that may have brought blocks; `demand`: so many are needed. Its error;
  // EINTR.
  Status wait_for_supply(MutexLock& lock, Supply& supply, uint64_t demand, const Interruption* by = nullptr)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // Calls to the brick for blocks that its budget has begun to allocate or to free; the mutex is given up meanwhile.
  // What becomes of blocks whose call was not answered is settled later: they are freed, if they are there.
  Status alloc_on_brick(Supply& supply, BlockRun blocks) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  Status free_on_brick(Supply& supply, BlockRun blocks) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  void note_block_taken(Supply& supply) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  void note_progress(Supply& supply, const Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);

  struct Freed {
    Lsn by;
    UnitRun run;
  };

  CondVar settled;  // the reserve for write-back
  WritebackReserve reserve ABSL_GUARDED_BY(mutex);
  std::function<void()> on_short;

  // Fixed after start().
  VolumeSet& volume;
  Hooks hooks;
  // By place: one, but in a set. The first has the metadata.
  std::vector<std::unique_ptr<Supply>> supplies;

  mutable Mutex mutex;
  CondVar supplied;  // for those who wait for a supply
  DataBlocks data ABSL_GUARDED_BY(mutex);
  std::deque<Freed> freed ABSL_GUARDED_BY(mutex);      // not yet durably; still in use in `data`
  std::atomic<uint64_t> freed_units{0};                // in it; changed under the mutex
  uint64_t promised_units ABSL_GUARDED_BY(mutex) = 0;  // to allocations under way, not yet taken
  std::atomic<Lsn> durable{};

  uint64_t lent_units ABSL_GUARDED_BY(mutex) = 0;
  Clock::time_point lends_from ABSL_GUARDED_BY(mutex){};
  std::function<void(const Interruption* by)> asks_back ABSL_GUARDED_BY(mutex);

  uint64_t trims_wanted ABSL_GUARDED_BY(mutex) = 0;
  bool stopping ABSL_GUARDED_BY(mutex) = false;

  // The budget of the brick that has the metadata.
  BlockBudget& budget() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) { return supplies[0]->budget; }
  const BlockBudget& budget() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) { return supplies[0]->budget; }
  uint64_t available_to_data() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);  // on all bricks
  Supply& supply_of(uint64_t block) { return *supplies[volume.place_of(BlockAddress{block * kBlockBytes})]; }
  // The bricks are asked again what they can give, unless they were just now.
  void want_refresh() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);

 private:
  Status keep_reserve(MutexLock& lock, uint64_t units, const Interruption* by, For what)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  void take(UnitRun run, uint64_t& need, std::vector<UnitRun>& runs) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  Status promise(MutexLock& lock, uint64_t units, const Interruption* by) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  void take_well_placed(uint64_t goal, uint64_t& need, std::vector<UnitRun>& runs) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  Status take_promised(MutexLock& lock, uint64_t goal, uint64_t& need, std::vector<UnitRun>& runs,
                       const Interruption* by) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  Supply* next_place() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  Supply* supply_that_can_bring() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  Supply* stale_supply() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);

  BlockRuns take_for_reserve(Supply& supply) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  Status make_zeros(const BlockRuns& blocks) ABSL_LOCKS_EXCLUDED(mutex);
  Status return_unused(Supply& supply) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // One call to the brick, if one is due; the mutex is given up during it.
  bool supply_step(Supply& supply) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  bool is_quiet(const Supply& supply) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  uint64_t wanted_ahead(const Supply& supply) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  uint64_t blocks_to_fetch(const Supply& supply) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  std::optional<BlockRun> next_to_return(Supply& supply) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  void fetch(Supply& supply, uint64_t blocks) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  Status return_blocks(Supply& supply, BlockRun blocks) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  Status settle_doubt(Supply& supply) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  void refresh(Supply& supply) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
};

}  // namespace brickfs
