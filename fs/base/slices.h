// SPDX-License-Identifier: Apache-2.0
// Local memory of a request, taken piece by piece, and the transfers it is cut into.
// Threads: none of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "transport/brick/brick.h"
#include "transport/volume/volume_set.h"

namespace brickfs {

uint64_t total_bytes(std::span<const LocalSlice> slices);

// Walks through slices from the first byte to the last.
class SliceCursor {
 public:
  explicit SliceCursor(std::span<const LocalSlice> slices) : rest_(slices) {}
  // Appends the next `bytes` to `out`. So many must be left, here and below.
  void take(uint64_t bytes, std::vector<LocalSlice>& out);
  void fill_with_zeros(uint64_t bytes);
  void fill(std::span<const std::byte> from);
  void drain(std::span<std::byte> into);
  void skip(uint64_t bytes);

 private:
  LocalSlice next(uint64_t most);

  std::span<const LocalSlice> rest_;
  uint32_t used_ = 0;  // of the first
};

// Transfers of one batch; neighbouring ones in the volume become one piece.
class PieceList {
 public:
  void add(uint64_t address, SliceCursor& local, uint64_t bytes);
  void add_zeros(uint64_t address, uint64_t bytes);  // for writing
  bool empty() const { return pieces_.empty(); }
  void clear() { pieces_.clear(); }
  std::span<const Piece> pieces() const { return pieces_; }

 private:
  std::vector<LocalSlice>& slices_at(uint64_t address, uint64_t bytes);

  absl::InlinedVector<Piece, 2> pieces_;
  uint64_t end_ = 0;  // address behind the last piece
};

}  // namespace brickfs
