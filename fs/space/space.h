// SPDX-License-Identifier: Apache-2.0
// Which units of the volume are in use, and the blocks they are cut from. Memory only: rebuilt from extent rows at each
// mount.
//
// Blocks come from the volume ahead of need (allocated and mapped by a background thread), go back when the last unit
// is free, and keep neighbouring addresses where a file grows. A block address is not used twice during a mount.
//
// Freed units become free only when the transaction that freed them is durable; allocate() forces that when it runs
// short. A reserve of blocks for journal and checkpoint is never given to data, so that on a full volume `rm` still
// works.
//
// Threads: any. No lock is held across a call to the volume.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "fs/base/ids.h"
#include "transport/base/interruption.h"
#include "transport/base/result.h"
#include "transport/volume/volume_set.h"

namespace brickfs {

struct SpaceUsage {
  uint64_t total_units = 0;  // what df shows as the size
  // Data may still take so many: exact, also counts what is being freed. None where metadata has grown into its
  // reserve.
  uint64_t free_units = 0;
  uint64_t journal_room_blocks = 0;   // BlockBudget::journal_room
  uint64_t metadata_free_blocks = 0;  // about so many are free where metadata is: in a set, on the first brick
};

class Space {
 public:
  struct Hooks {
    std::function<Lsn()> durable;  // everything up to it is durable
    // Waits until all that was freed so far is durable (Journal::sync); on the caller's thread, and interrupted as it
    // is.
    std::function<Status(const Interruption* by)> make_durable;
  };

  // `volume` must outlive it. Nothing is in use yet: recovery calls adopt() for each extent, then start().
  explicit Space(VolumeSet& volume);
  ~Space();

  // Recovery: the run is in use. EUCLEAN when a unit of it already was, or lies outside the allocated blocks.
  Status adopt(UnitRun run);
  // Recovery: the block is the superblock's, the journal's or a checkpoint's. EUCLEAN when it is in use.
  Status adopt_metadata(BlockRange blocks);
  // `allocated`: the volume's blocks after reconciliation, all of them in use. `unused`: those that nothing refers to.
  // They become the reserve's where the brick has too little for it; the others go back. Starts the supply thread.
  struct Unused {
    std::span<const BlockRange> blocks;
    bool are_zeros = false;  // kept by an orderly unmount; else they may hold anything
  };
  Status start(std::span<const BlockRange> allocated, const Unused& unused, Hooks hooks);
  // Ends the supply thread and gives the blocks kept ahead back, but for a reserve with which the next mount can begin
  // (BlockBudget::held_when_closed), for which it takes what that lacks and the brick has; a commit then makes that
  // durable. Nothing may be allocated for data any more. An error leaves blocks on the brick that nothing refers to, as
  // a crash does. The destructor alone gives nothing back, and waits for a call to the volume under way.
  Status stop();

  // In all `units` > 0, in as few runs as space allows, the first one at `goal` (a volume unit, 0: anywhere) if that is
  // free. Waits for a control call only if nothing is ahead. ENOSPC / EDQUOT: not so many are free; nothing is taken
  // then. EINTR.
  enum class For { kAnything, kWriteback };  // kWriteback: of the kernel's page cache (reserve_for_writeback)
  Result<std::vector<UnitRun>> allocate(uint64_t units, uint64_t goal, const Interruption* by = nullptr,
                                        For what = For::kAnything);
  // Given up by a transaction with this LSN.
  void release(UnitRun run, Lsn freed_by);
  // Allocated but never named in a transaction; no transfer to it is under way.
  void discard(UnitRun run);
  // Journal::durable() has moved.
  void on_durable(Lsn durable);

  // --- units that others than this process fill (fs/operations/unit_lending.h). They are in use here, in no row and no
  // checkpoint, and count as free in usage().
  // At most so many blocks, whole, spread over the bricks of a set, one run each: as many as are ahead, without
  // waiting. None where there is little room, and for a second after somebody else was short of it.
  std::vector<UnitRun> lend(uint64_t blocks);
  // Part of what was lent is a file's from now on, or is free again.
  void keep_lent(UnitRun run);
  void take_back(UnitRun run);
  uint64_t lent_units() const;
  // Called by an allocation that would fail, with no lock held: has unused units taken back, and waits for that a
  // while.
  void ask_back_by(std::function<void(const Interruption* by)> ask_back);

  // Whole neighbouring blocks for journal and checkpoint, from the reserve if need be. They read as zeros.
  Result<BlockRange> allocate_metadata(uint64_t blocks);
  // Durably unreferenced: goes back to the brick at once, or, with an error, later.
  Status free_metadata(BlockRange blocks);
  // About how large a checkpoint of all rows is: the reserve grows and shrinks with it.
  void set_metadata_bytes(uint64_t live_bytes);

  // The kernel's page cache may hold so many units that are not written yet (fs/space/writeback_reserve.h). `on_short`,
  // which does not wait, has it write them back, and then this or settle_writeback() called.
  void reserve_for_writeback(uint64_t units, std::function<void()> on_short);
  void settle_writeback();
  bool is_short_for_writeback() const;

  SpaceUsage usage() const;
  // Of the brick's store (transport/brick/store_trouble.h), as the brick last said; it is asked again soon.
  std::string store_trouble() const;
  // Brings the blocks kept ahead back to the standing number and waits until all free blocks are the brick's again.
  Status trim();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace brickfs
