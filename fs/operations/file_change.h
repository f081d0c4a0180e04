// SPDX-License-Identifier: Apache-2.0
// One change of a file's data under way: it holds the range of the file, gathers what is to be written to the brick and
// what is to be mapped, and then does both in the order that is safe: data first, then the transaction that shows it.
//
// Whoever changes the size holds the unit in which the old end lies (and a truncation all behind the new end), so the
// size stands still for a change that reaches up to it.
//
// Threads: one. Use: lock...(); plan (map, write, zero ...); apply().
#pragma once

#include <sys/stat.h>

#include <optional>
#include <vector>

#include "fs/operations/filesystem_state.h"
#include "fs/operations/unit_lending.h"

namespace brickfs {

class Filesystem::Impl::FileChange {
 public:
  FileChange(Impl& filesystem, Ino ino, const OperationContext& context)
      : fs_(filesystem), ino_(ino), context_(context) {}
  ~FileChange();  // units taken for what was not applied are given back
  FileChange(const FileChange&) = delete;
  FileChange& operator=(const FileChange&) = delete;

  // Waits for bytes [offset, + length); if they reach past the end, for all from the old end on. EFBIG, EINVAL (not a
  // file).
  Status lock(uint64_t offset, uint64_t length);
  // The same if it need not wait and reaches no further than the end. False: nothing is locked.
  bool try_lock_within(uint64_t offset, uint64_t length);
  // For `length` bytes behind the end, wherever that will be. EFBIG.
  Status lock_append(uint64_t length);
  // From there, or from the end if that comes first, on. EFBIG.
  Status lock_from(uint64_t offset);

  // Of what was locked.
  uint64_t offset() const { return offset_; }
  uint64_t end() const { return end_; }
  uint64_t first_unit() const { return offset_ / kUnitBytes; }
  uint64_t end_unit() const { return divide_up(end_, kUnitBytes); }
  uint64_t size() const { return size_; }
  bool has_set_id_bits() const { return (mode_ & (S_ISUID | S_ISGID)) != 0; }
  // What the units are mapped to now, ascending, cut to them.
  ExtentList extents(uint64_t first, uint64_t end) const;

  // New units for the parts of the units that `mapped` (ascending, within them) leaves open. ENOSPC: for none of them.
  Result<std::vector<Extent>> allocate(uint64_t first, uint64_t end, std::span<const Extent> mapped,
                                       Space::For what = Space::For::kAnything);
  // New units for what of the range has none; until they are written they read as zeros.
  Status fill_holes();
  void map(const Extent& extent) { maps_.push_back(extent); }
  void unmap(uint64_t first, uint64_t end) { unmaps_.push_back({first, end - first}); }

  PieceList& pieces() { return pieces_; }
  // Zeroes these bytes where they are mapped and written; parts of a few units.
  void zero(uint64_t from, uint64_t to);
  // The same of the range's bytes before and behind these units, which lie in it.
  void zero_outside(uint64_t first_unit, uint64_t end_unit);
  // Their units are what the range is mapped to, in the place of what was there. Outlives this.
  void fill_with(const FilledRange& filled);
  // If the end is about to move up: zeroes from the old end to the end of its unit, or to `to` if that comes first.
  void zero_gap(uint64_t to);
  // Bytes of units are written in place that may still hold what was truncated not long ago: then that must be durable.
  void touches_deferred_truncation() { waits_for_truncation_ = true; }
  // Content stays behind in units that are kept.
  void defers_truncation() { defers_truncation_ = true; }

  struct Outcome {
    std::optional<uint64_t> size_bytes = {};
    bool stamp_mtime = false;
    bool stamp_ctime = false;
    const Caller* unprivileged = nullptr;  // takes set-uid and set-gid away
    bool keeps_capabilities = false;
    const InodeEdit* edit = nullptr;
  };
  // Once. EAGAIN: what the bricks went through since units were filled. An error of the data transfer leaves the file
  // as it was, but for bytes written in place, which are undefined.
  Status apply(const Outcome& outcome);
  // Only the transaction, where the bytes have been written in place by other means.
  Status record(const Outcome& outcome);

 private:
  Status look();
  Status lock_range(uint64_t first_unit, uint64_t end_unit);
  bool change_inode(const Outcome& outcome, Transaction& transaction, Inode& inode);
  Status adopt_filled();
  void record_maps(Transaction& transaction, Inode& inode);
  uint64_t goal_at(uint64_t file_unit) const;

  struct Units {
    uint64_t first;
    uint64_t count;
  };

  Impl& fs_;
  const Ino ino_;
  const OperationContext context_;
  RangeLocks::Hold hold_;
  uint64_t offset_ = 0;
  uint64_t end_ = 0;
  uint64_t size_ = 0;
  uint32_t mode_ = 0;
  Units looked_at_{};  // when the range was locked last, and what was mapped there
  ExtentList mapped_;
  PieceList pieces_;
  std::vector<Extent> maps_;
  std::vector<Units> unmaps_;
  std::vector<UnitRun> allocated_;  // not in any transaction yet
  const FilledRange* filled_ = nullptr;
  bool waits_for_truncation_ = false;
  bool defers_truncation_ = false;
};

}  // namespace brickfs
