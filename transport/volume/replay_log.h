// SPDX-License-Identifier: Apache-2.0
// What has been written and not committed: the ranges, for the next commit, and the bytes, to write them again to a
// brick that has restarted. Two generations: *current*, and *committing*, which a commit turned over and drops when it
// succeeds.
//
// A write reserves room, copies its bytes while they travel, and appends them when it has completed and before it
// returns. Bounded: writes of data wait for room; journal and superblock do not, since commits could not go on without
// them.
//
// Threads: any.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "transport/base/mutex.h"
#include "transport/base/result.h"
#include "transport/brick/block_set.h"
#include "transport/brick/brick.h"
#include "transport/volume/kept_buffers.h"
#include "transport/volume/lent_bytes.h"
#include "transport/volume/stage.h"
#include "transport/volume/staged_write.h"

namespace brickfs {

class ReplayLog {
 public:
  enum class Keep { kNothing, kRanges, kBytes };

  struct Record {  // never crosses the end of a block
    uint64_t address = 0;
    uint32_t length_bytes = 0;  // at most KeptBuffers::kLargeBytes where bytes are kept
    Stage stage = Stage::kData;
    std::shared_ptr<std::byte> bytes;  // nobody changes them; other replicas' logs may have the same
    std::shared_ptr<LentBytes> lent;   // in place of `bytes`: who has them
  };

  // `on_half_full` (may be null) is called from writers, without locks: half of the bound is passed (once until the
  // next commit), or there is no room.
  ReplayLog(Keep keep, uint64_t bound_bytes, std::function<void()> on_half_full)
      : keep_(keep), bound_(bound_bytes), on_half_full_(std::move(on_half_full)) {}

  // Room for a write, given back on destruction as far as it was not used up by append().
  class Room {
   public:
    Room() = default;
    Room(Room&& other) noexcept { *this = std::move(other); }
    Room& operator=(Room&& other) noexcept {
      std::swap(log_, other.log_);
      std::swap(bytes_, other.bytes_);
      std::swap(joins_committing_, other.joins_committing_);
      return *this;
    }
    ~Room();
    // What is appended with it belongs to committing, not to current. Only by whoever commits, before it asks for
    // committing_ranges().
    void join_committing() { joins_committing_ = true; }

   private:
    friend class ReplayLog;
    ReplayLog* log_ = nullptr;
    uint64_t bytes_ = 0;
    bool joins_committing_ = false;
  };

  // Nothing: no room now (wait_for_room).
  std::optional<Room> try_reserve(uint64_t bytes, Stage stage);
  // Until there may be room for so much data, at most `timeout`. EIO, ENOSPC: a commit has failed meanwhile.
  Status wait_for_room(uint64_t bytes, std::chrono::milliseconds timeout);
  bool has_room_for(uint64_t bytes) const;
  void wake();  // all who wait for room

  // Adds to `records` what holds a copy of these bytes (just their range, if bytes are not kept). Of a staged write,
  // whose memory `from` is, that is the copy that there is.
  void copy(uint64_t address, std::span<const LocalSlice> from, Stage stage, std::vector<Record>& records,
            const StagedWrite* staged = nullptr);
  // The same of bytes that another has written, and keeps himself.
  void name(const LentRange& range, const std::shared_ptr<LentBytes>& bytes, std::vector<Record>& records) const;
  // The write that the records are copies of has completed. Uses up room. Returns the generation they are in.
  uint64_t append(std::vector<Record> records, Room& room);

  // --- commits, one at a time. Current joins committing.
  void turn_over();
  // What committing covers, stage by stage, each ascending and merged, a barrier between stages.
  std::vector<CommitRange> committing_ranges() const;
  static std::vector<CommitRange> ranges_of(std::span<const Record* const> records);
  void committed();
  void commit_failed(Error error);
  // Of what is appended now.
  uint64_t current_generation() const;
  // Every generation up to it is durable.
  uint64_t committed_generation() const { return committed_generation_.load(std::memory_order_acquire); }

  // The blocks are gone: so is what was written to them. Not during a commit.
  void forget(BlockRange blocks);

  // All in order of their completion. Valid until the next append(), turn_over(), committed() or forget().
  std::vector<const Record*> records() const;

  // That hold something of it.
  BlockSet blocks() const;

  Keep keep() const { return keep_; }
  uint64_t used_bytes() const;

 private:
  struct Generation {
    std::vector<Record> records;
    uint64_t cost = 0;
  };

  bool has_room(uint64_t bytes) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  uint64_t used() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return current_.cost + committing_.cost + reserved_; }
  static uint64_t cost_of(const Record& record) { return record.length_bytes + kRecordCost; }
  void give_back(uint64_t bytes);
  static void share(uint64_t address, std::span<const LocalSlice> from, Stage stage, std::vector<Record>& records,
                    const StagedWrite& staged);

  static constexpr uint64_t kRecordCost = 64;

  const Keep keep_;
  const uint64_t bound_;
  const std::function<void()> on_half_full_;
  std::atomic<uint64_t> committed_generation_{0};

  mutable Mutex mutex_;
  CondVar room_;
  Generation current_ ABSL_GUARDED_BY(mutex_);
  Generation committing_ ABSL_GUARDED_BY(mutex_);
  uint64_t current_number_ ABSL_GUARDED_BY(mutex_) = 1;
  uint64_t reserved_ ABSL_GUARDED_BY(mutex_) = 0;
  bool told_half_full_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t failures_ ABSL_GUARDED_BY(mutex_) = 0;  // of commits
  int last_failure_ ABSL_GUARDED_BY(mutex_) = 0;

  const std::shared_ptr<KeptBuffers> buffers_ = KeptBuffers::make();
};

}  // namespace brickfs
