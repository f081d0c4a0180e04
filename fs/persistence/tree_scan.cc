// SPDX-License-Identifier: Apache-2.0
#include "fs/persistence/tree_scan.h"

namespace brickfs {
namespace {

constexpr size_t kNumbersAtOnce = 65536;
constexpr size_t kRowsPerHold = 512;  // some 50 µs under an inode's lock

}  // namespace

bool TreeScan::next(Transaction& out, size_t bytes) {
  const size_t before = out.bytes().size();
  while (out.bytes().size() - before < bytes) {
    if (position_ == numbers_.size() && !refill()) break;
    if (scan_some(numbers_[position_], out)) continue;
    ++position_;
    step_ = Step::kAttributes;
    cursor_ = 0;
  }
  return out.bytes().size() > before;
}

bool TreeScan::refill() {
  numbers_ = inodes_.numbers_from(refill_from_, kNumbersAtOnce);
  position_ = 0;
  while (!numbers_.empty() && numbers_.back() >= end_) numbers_.pop_back();
  if (numbers_.empty()) return false;
  refill_from_ = Ino{raw(numbers_.back()) + 1};
  return true;
}

// One hold of the inode's lock. True if there is more of it.
bool TreeScan::scan_some(Ino ino, Transaction& out) {
  InodeLocks lock(inodes_, {ino}, InodeLocks::Mode::kShared);
  Inode* const inode = inodes_.find(ino);
  if (inode == nullptr) return false;
  if (step_ == Step::kAttributes) {
    scan_attributes(*inode, out);
    step_ = Step::kEntries;
  }
  if (step_ == Step::kEntries) {
    if (inode->directory != nullptr && scan_entries(*inode, out)) return true;
    step_ = Step::kExtents;
    cursor_ = 0;
  }
  return inode->extents != nullptr && scan_extents(*inode, out);
}

void TreeScan::scan_attributes(Inode& inode, Transaction& out) {
  out.put(inode.row());
  if (inode.orphan) out.put_orphan(inode.ino);
  if (inode.xattrs == nullptr) return;
  for (const auto& [name, value] : *inode.xattrs) out.put(XattrRow{inode.ino, name, value});
}

bool TreeScan::scan_entries(const Inode& inode, Transaction& out) {
  for (size_t rows = 0; rows < kRowsPerHold; ++rows) {
    const auto entry = inode.directory->after(cursor_);
    if (!entry) return false;
    out.put(DirentRow{inode.ino, entry->name, entry->ino, entry->type, entry->cookie});
    cursor_ = entry->cookie;
  }
  return true;
}

bool TreeScan::scan_extents(const Inode& inode, Transaction& out) {
  for (size_t rows = 0; rows < kRowsPerHold; ++rows) {
    const auto extent = inode.extents->at_or_after(cursor_);
    if (!extent) return false;
    out.put(ExtentRow{inode.ino, extent->file_unit, extent->count, extent->volume_unit, extent->unwritten});
    cursor_ = extent->end();
  }
  return true;
}

}  // namespace brickfs
