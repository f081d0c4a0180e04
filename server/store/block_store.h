// SPDX-License-Identifier: Apache-2.0
// The blocks of all volumes: which exist, where they live (frame of the pool, slot of the store), what keeps them
// there. Knows no sessions; who may do what is decided above it.
//
// A block has a slot from alloc on (durable bricks), and a frame while it is resident: from its first mapping until it
// is evicted, which happens to unmapped blocks only. In memory that outlives brickd it has its frame from alloc on, and
// keeps it; the frame is cleared for its first mapping.
//
// Threads: every call from any thread. One mutex guards the bookkeeping and is never held while a block is copied,
// cleared or written; a block being worked on is `moving` (one thread has it for itself) or `held` (it stays resident).
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <unordered_map>
#include <vector>

#include "server/store/commit_plan.h"
#include "server/store/free_runs.h"
#include "server/store/kept_table.h"
#include "server/store/pool.h"
#include "server/store/store_file.h"
#include "transport/base/interval_set.h"
#include "transport/base/mutex.h"
#include "transport/base/progress.h"
#include "transport/base/result.h"
#include "transport/brick/brick.h"

namespace brickfs {

enum class VolumeId : uint32_t {};
constexpr uint64_t kNoQuota = UINT64_MAX;

// What becomes of a block that was mapped for writing and no longer is.
enum class AfterWriting {
  kStore,    // the store gets what was written (not synced)
  kSuspect,  // its writer went without a word: memory is newer than what he may have committed. Its slot gets that by
             // a commit only: who needs its frame, or stops the brick, stores it in a shadow (store_file.h)
  kDiscard,  // it is about to be freed
};

class BlockStore {
 public:
  // `store` null: a volatile brick; `kept`, which may be null too, then says what is in the pool's frames. All outlive
  // this.
  BlockStore(Pool& pool, StoreFile* store, KeptTable* kept = nullptr);
  BlockStore(const BlockStore&) = delete;
  BlockStore& operator=(const BlockStore&) = delete;

  uint64_t capacity_blocks() const { return capacity_; }
  uint64_t memory_blocks() const { return pool_.frames(); }

  void add_volume(VolumeId volume, uint64_t quota_blocks) ABSL_LOCKS_EXCLUDED(mutex_);
  void set_quota(VolumeId volume, uint64_t quota_blocks) ABSL_LOCKS_EXCLUDED(mutex_);
  // EDQUOT: more are allocated.
  Status change_quota(VolumeId volume, uint64_t quota_blocks) ABSL_LOCKS_EXCLUDED(mutex_);
  // Frees every block. Nobody else has anything to do with the volume any more, as nobody has again until it is gone.
  Status free_all(VolumeId volume) ABSL_LOCKS_EXCLUDED(mutex_);
  // Precondition: it has no block.
  void remove_volume(VolumeId volume) ABSL_LOCKS_EXCLUDED(mutex_);
  // Blocks found in the store, once, before any other call but add_volume().
  void adopt(std::span<const StoreFile::Entry> entries) ABSL_LOCKS_EXCLUDED(mutex_);
  // Slots that are nobody's and stay so: they count as used.
  void set_aside(std::span<const uint32_t> slots) ABSL_LOCKS_EXCLUDED(mutex_);
  // ... in the pool's memory, whose frames the pool knows to be in use.
  void adopt(std::span<const KeptTable::Entry> entries) ABSL_LOCKS_EXCLUDED(mutex_);

  // As in transport/brick/brick.h, for one valid range. EBUSY from free: mapped.
  Status alloc(VolumeId volume, BlockRange blocks) ABSL_LOCKS_EXCLUDED(mutex_);
  Status free(VolumeId volume, BlockRange blocks) ABSL_LOCKS_EXCLUDED(mutex_);
  // ENOENT: one of them does not exist.
  Status check_allocated(VolumeId volume, BlockRange blocks) const ABSL_LOCKS_EXCLUDED(mutex_);
  ListPage list(VolumeId volume, BlockAddress cursor) const ABSL_LOCKS_EXCLUDED(mutex_);

  // Makes the blocks resident and keeps them so until as many unmap() calls. The memory of each block.
  Result<std::vector<std::byte*>> map(VolumeId volume, BlockRange blocks, Access access) ABSL_LOCKS_EXCLUDED(mutex_);
  // Undoes one map() of each block, by the same access. Nobody touches their bytes by that mapping any more.
  void unmap(VolumeId volume, BlockRange blocks, Access access, AfterWriting after) ABSL_LOCKS_EXCLUDED(mutex_);

  // As in transport/brick/brick.h. ECANCELED when `abandoned`, asked before each block, says so before all is written.
  using Abandoned = std::function<bool()>;
  Status commit(VolumeId volume, std::span<const CommitRange> ranges, const Abandoned& abandoned)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Stores durably all that is newer in memory: of suspect blocks in shadows, of all of a volume or (an error) of none.
  // Precondition: nothing is mapped.
  Status write_back_all(const Progress& progress) ABSL_LOCKS_EXCLUDED(mutex_);

  uint64_t suspect_blocks(VolumeId volume) const ABSL_LOCKS_EXCLUDED(mutex_);
  // The store has slots for which its disk has no room: or so little that clients hold it back for what they need to
  // free anything.
  bool disk_is_full() const ABSL_LOCKS_EXCLUDED(mutex_);
  struct Usage {
    uint64_t used = 0;
    uint64_t mapped = 0;
    uint64_t resident = 0;
  };
  Usage usage(VolumeId volume) const ABSL_LOCKS_EXCLUDED(mutex_);
  // Since the start, or now.
  struct Counts {
    uint64_t used = 0;
    uint64_t resident = 0;
    uint64_t suspect = 0;
    uint64_t commits = 0;
    uint64_t committed_bytes = 0;
    uint64_t loads = 0;        // blocks that came from the store into memory
    uint64_t evictions = 0;    // blocks that left memory for others
    uint64_t write_backs = 0;  // blocks compared with the store, and written there where they differed, but for commits
    uint64_t store_errors = 0;
    std::optional<uint64_t> disk_room_bytes;  // on the store's disk, besides what is reserved
  };
  Counts counts() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Fills in the fields about blocks.
  void fill_stat(VolumeId volume, BrickStat& stat) const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  static constexpr uint32_t kNone = UINT32_MAX;

  using SlotSet = IntervalSet<uint32_t>;
  using Slots = SlotSet::Interval;
  struct Volume;
  struct Block {
    Volume* volume = nullptr;
    uint32_t slot = kNone;
    uint32_t frame = kNone;
    uint32_t mappings = 0;
    uint32_t writers = 0;              // mappings for writing
    uint32_t holds = 0;                // commits that are copying from the frame
    uint32_t write_mappings_ever = 0;  // tells whether one came in between
    bool moving = false;               // one thread has it: being made, loaded, stored or freed; others wait for moved_
    bool blank = false;                // never mapped for writing since alloc: its slot need not be read
    bool dirty = false;                // the frame may differ from the slot, or from the shadow if it has one
    bool suspect = false;
    std::unique_ptr<StoreFile::Shadow> shadow;  // with what is newer than the slot
    std::list<Block*>* idle_list = nullptr;     // the one it stands in: clean_idle_, dirty_idle_ or none
    std::list<Block*>::iterator idle_place;
  };
  using Blocks = std::map<BlockAddress, Block>;  // places of blocks are stable
  struct Volume {
    uint64_t quota = kNoQuota;
    uint64_t mapped = 0;
    uint64_t resident = 0;
    uint64_t suspect = 0;
    Blocks blocks;
  };

  // Blocks of a range, none moving (waited for). ENOENT.
  Result<std::vector<Block*>> settled_blocks(Volume& volume, BlockRange blocks, MutexLock& lock)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Volume& volume_of(VolumeId volume) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void stop_moving(std::span<Block* const> blocks) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Where these let go of the mutex meanwhile, blocks that are not moving, mapped or held may change.
  // Allocation (block_store.cc).
  Status reserve(Volume& volume, BlockRange blocks) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Status reserve_room(std::span<Block* const> made) ABSL_LOCKS_EXCLUDED(mutex_);
  Status reserve_slots(std::span<Block* const> made);
  void put_slots_back(std::span<Block* const> made) ABSL_LOCKS_EXCLUDED(mutex_);
  static std::vector<Slots> slots_of(std::span<Block* const> blocks);
  uint64_t room_on_disk() const ABSL_LOCKS_EXCLUDED(mutex_);
  static std::vector<uint32_t> frames_of(std::span<Block* const> blocks);
  Status write_entries(VolumeId volume, BlockRange blocks, std::span<Block* const> made);
  Status clear_entries(VolumeId volume, BlockRange blocks, std::span<Block* const> doomed);
  void erase(Volume& volume, BlockRange blocks, std::span<Block* const> doomed) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Residency (block_residency.cc).
  Status find_frames(uint64_t count, MutexLock& lock) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Status evict_one() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Status load(std::span<Block* const> absent);
  void note_writer(Block& block) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  uint32_t frame_before(Volume& volume, BlockAddress address) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void add_mapping(Block& block, Access access) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void drop_mapping(Block& block, Access access) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void enlist_if_idle(Block& block) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void unlist(Block& block) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void give_frame(Block& block, uint32_t frame) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void drop_frame(Block& block) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Status store_idle(Block& block) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Status store_writes(Block& block) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Status store_apart(Block& block) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void begin_storing(Block& block) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void end_storing(Block& block, const Status& stored) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Commit (block_commit.cc).
  Status check_named(VolumeId volume, const CommitPlan& plan) const ABSL_LOCKS_EXCLUDED(mutex_);
  Status write_named(VolumeId volume, const CommitPlan::Bytes& named, const Abandoned& abandoned)
      ABSL_LOCKS_EXCLUDED(mutex_);
  Status write_part(VolumeId volume, BlockAddress address, uint64_t offset, uint64_t length_bytes)
      ABSL_LOCKS_EXCLUDED(mutex_);
  Status write_from_shadow(Block& block, uint64_t offset, uint64_t length_bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Status leave_shadows(const std::set<const Volume*>& but) ABSL_LOCKS_EXCLUDED(mutex_);
  void clear_suspicion(VolumeId volume, std::span<const BlockAddress> settled) ABSL_LOCKS_EXCLUDED(mutex_);
  Status sync() ABSL_LOCKS_EXCLUDED(mutex_);
  std::vector<Slots> take_freed() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Fixed after construction.
  Pool& pool_;
  StoreFile* const store_;
  KeptTable* const kept_;
  const uint64_t capacity_;

  std::atomic<uint64_t> commits_{0};
  std::atomic<uint64_t> committed_bytes_{0};
  std::atomic<uint64_t> loads_{0};
  std::atomic<uint64_t> evictions_{0};
  std::atomic<uint64_t> write_backs_{0};

  mutable Mutex mutex_;
  CondVar moved_;  // a block stopped moving or being held, or an idle one appeared
  std::unordered_map<uint32_t, std::unique_ptr<Volume>> volumes_ ABSL_GUARDED_BY(mutex_);
  uint64_t used_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t soon_idle_ ABSL_GUARDED_BY(mutex_) = 0;  // unmapped blocks being stored or committed
  // Resident, not mapped, not moving, not held; least recently used first.
  std::list<Block*> clean_idle_ ABSL_GUARDED_BY(mutex_);
  std::list<Block*> dirty_idle_ ABSL_GUARDED_BY(mutex_);
  // A freed slot: freed_ -> (sync) -> cleared_ -> (sync) -> free_. So neither an old block can come back onto a slot in
  // use again, nor old bytes into a new block, wherever the machine stops.
  FreeRuns free_slots_ ABSL_GUARDED_BY(mutex_);
  SlotSet freed_slots_ ABSL_GUARDED_BY(mutex_);
  SlotSet cleared_slots_ ABSL_GUARDED_BY(mutex_);
  uint64_t being_cleared_ ABSL_GUARDED_BY(mutex_) = 0;  // slots, between freed_ and cleared_
  uint64_t clearings_ ABSL_GUARDED_BY(mutex_) = 0;      // how often some came to cleared_: the disk has their room
  CondVar cleared_changed_;                             // one of these two
  Status last_punch_ ABSL_GUARDED_BY(mutex_);
  bool storing_fails_ ABSL_GUARDED_BY(mutex_) = false;  // as the log has it
};

}  // namespace brickfs
