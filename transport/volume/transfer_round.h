// SPDX-License-Identifier: Apache-2.0
// The pieces of one read or write, cut into transfers that fit handles and limits and are posted together, in as many
// rounds as it takes: usually one.
// Threads: none of its own.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "transport/brick/block_set.h"
#include "transport/brick/brick.h"
#include "transport/brick/limits.h"
#include "transport/volume/handle_cache.h"
#include "transport/volume/local_keys.h"
#include "transport/volume/piece.h"
#include "transport/volume/replay_log.h"

namespace brickfs {

class TransferRound {
 public:
  // `keys`: of the brick. `staged`: the write whose memory the pieces are, if it is one.
  TransferRound(std::span<const Piece> pieces, Direction direction, const LocalKeys::Own& keys,
                const StagedWrite* staged = nullptr);

  uint64_t total_bytes() const { return total_bytes_; }
  Access access() const { return direction_ == Direction::kRead ? Access::kRead : Access::kReadWrite; }
  bool finished() const { return done_.piece == pieces_.size(); }

  BlockSet blocks() const;  // that it touches, all of it

  // Gathering a round: from where the last finished one ended.
  void restart();
  bool wants_more() const { return at_.piece < pieces_.size() && cuts_.size() < limits::kTransfersPerBatch; }
  uint64_t next_address() const { return pieces_[at_.piece].address + at_.offset; }
  uint64_t next_blocks() const;        // touched by the rest of the piece
  void add(HandleCache::Lease lease);  // as far as its handle reaches
  bool empty() const { return cuts_.empty(); }

  // The gathered round; valid until restart().
  Batch& batch();
  void copy_to(ReplayLog& log, Stage stage, std::vector<ReplayLog::Record>& records) const;
  void written(uint64_t generation) const;
  void finish();

 private:
  struct Cursor {
    size_t piece = 0;
    uint64_t offset = 0;  // in the piece
    size_t slice = 0;     // that has the next byte
    uint32_t slice_offset = 0;
  };
  struct Cut {
    size_t lease;
    uint64_t address;
    size_t first_slice;
    size_t slices;
  };

  void cut(size_t lease, uint64_t most);
  void skip_empty();

  const std::span<const Piece> pieces_;
  const Direction direction_;
  const LocalKeys::Own& keys_;
  const StagedWrite* const staged_;
  absl::InlinedVector<uint64_t, 4> lengths_;  // of the pieces
  uint64_t total_bytes_ = 0;
  Cursor done_;
  Cursor at_;
  absl::InlinedVector<HandleCache::Lease, 2> leases_;
  absl::InlinedVector<Cut, 2> cuts_;
  absl::InlinedVector<LocalSlice, 4> slices_;
  Batch batch_;
};

}  // namespace brickfs
