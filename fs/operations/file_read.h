// SPDX-License-Identifier: Apache-2.0
// One read of a file under way: it holds the range, so that nobody frees the units that are being read.
//
// Threads: one. Use: begin() or try_begin(); the pieces are read; finish().
#pragma once

#include "fs/operations/filesystem_state.h"

namespace brickfs {

class Filesystem::Impl::FileRead {
 public:
  FileRead(Impl& filesystem, Ino ino, uint64_t offset, Touch touch)
      : fs_(filesystem), ino_(ino), offset_(offset), touch_(touch) {}

  // Waits for the range. Fills `into` with zeros where nothing is to be read; adds what is to `pieces`. EISDIR, EINVAL
  // (not a file), EINTR.
  Status begin(std::span<const LocalSlice> into, PieceList& pieces, const Interruption* by);
  // The same if it need not wait. False: nothing was added or is held.
  bool try_begin(std::span<const LocalSlice> into, PieceList& pieces);
  // The pieces have been read. How many bytes.
  uint64_t finish();

 private:
  uint64_t end_unit(uint64_t length) const;
  Status plan(std::span<const LocalSlice> into, PieceList& pieces);

  Impl& fs_;
  const Ino ino_;
  const uint64_t offset_;
  const Touch touch_;
  uint64_t length_ = 0;
  bool is_touched_ = false;  // its time of reading is due
  RangeLocks::Hold hold_;
};

}  // namespace brickfs
