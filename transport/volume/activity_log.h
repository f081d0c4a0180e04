// SPDX-License-Identifier: Apache-2.0
// The activity log of a place: what is being written to its replicas, byte by byte, and the rows on them that say in
// which blocks (transport/volume/replica_format.h; as DRBD's).
//
// Writes that overlap go one after the other, or replicas would keep what came last to each. A block gets its row,
// on all replicas, before the first byte that is written to it; the row may go as soon as nothing is being written
// there, unless a write that was given up has left it different, or it is lent to others, who write there themselves.
// So whatever a crash of the client interrupts is in a block with a row.
//
// Threads: any.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "transport/base/interruption.h"
#include "transport/base/mutex.h"
#include "transport/base/result.h"
#include "transport/brick/block_set.h"
#include "transport/volume/piece.h"
#include "transport/volume/replica_format.h"

namespace brickfs {

class ActivityLog {
 public:
  struct Row {
    size_t index = 0;
    uint64_t value = 0;
  };
  // Puts rows on all replicas that are written.
  using WriteRows = std::function<Status(std::span<const Row>, const Interruption* by)>;

  explicit ActivityLog(WriteRows write) : write_(std::move(write)), rows_(kActivityRows) {}

  // The right to write to some bytes. Given back on destruction.
  class Claim {
   public:
    Claim() = default;
    Claim(Claim&& other) noexcept { *this = std::move(other); }
    Claim& operator=(Claim&& other) noexcept {
      std::swap(owner_, other.owner_);
      std::swap(ranges_, other.ranges_);
      return *this;
    }
    ~Claim() {
      if (owner_ != nullptr) owner_->give_back(*this);
    }

   private:
    friend class ActivityLog;
    struct Bytes {
      uint64_t first;
      uint64_t end;
    };
    ActivityLog* owner_ = nullptr;
    std::vector<Bytes> ranges_;
  };

  // Waits for what overlaps, and sees to rows: of at most kMostBlocks blocks. EINTR; as WriteRows.
  Result<Claim> claim(std::span<const Piece> pieces, const Interruption* by);
  static constexpr size_t kMostBlocks = kActivityRows / 4;
  // How many of the first pieces can be claimed together: one at least.
  static size_t claimable(std::span<const Piece> pieces);
  // The same if there is nothing to wait for nor to write. EAGAIN.
  Result<Claim> try_claim(std::span<const Piece> pieces);
  // Whole blocks, without rows: to keep writers away.
  Claim hold(BlockRange blocks);

  // What is different there on the replicas, though nobody writes: their rows stay until it is equal again.
  void keep(BlockRange blocks);
  void let_go(BlockRange blocks);

  // To be written to by others, who claim nothing: they have rows until end_lending(). Not lent yet. EAGAIN: as many
  // blocks are lent as may be; else as claim().
  Status lend(BlockRange blocks, const Interruption* by);
  void end_lending(BlockRange blocks);
  bool is_lent(BlockRange blocks) const;  // any of them
  bool lends() const;                     // any at all
  static constexpr size_t kMostLent = kActivityRows / 2;

  // Those with a row.
  BlockSet active() const;
  // All rows, for a replica that joins. No row is being written meanwhile.
  std::vector<uint64_t> rows() const;

 private:
  struct Entry {
    size_t row = 0;
    bool written = false;
  };
  using Ranges = std::vector<Claim::Bytes>;

  static Ranges ranges_of(std::span<const Piece> pieces);
  static std::vector<uint64_t> blocks_of(const Ranges& ranges);
  bool overlaps(const Ranges& ranges) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool has_writer(uint64_t block) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Claim take(Ranges ranges) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void give_back(Claim& claim);
  bool take_rows(const std::vector<uint64_t>& blocks, std::vector<Row>& rows) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool is_free(size_t row, const std::vector<uint64_t>& blocks) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Status give_rows(BlockRange blocks, const Interruption* by);
  void end_writing(const std::vector<Row>& rows, bool written);

  const WriteRows write_;
  mutable Mutex mutex_;
  CondVar changed_;
  std::vector<Claim::Bytes> claimed_ ABSL_GUARDED_BY(mutex_);
  std::vector<uint64_t> rows_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<uint64_t, Entry> entries_ ABSL_GUARDED_BY(mutex_);  // by address of the block
  BlockSet kept_ ABSL_GUARDED_BY(mutex_);
  BlockSet lent_ ABSL_GUARDED_BY(mutex_);
  size_t next_row_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace brickfs
