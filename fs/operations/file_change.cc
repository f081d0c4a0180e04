// SPDX-License-Identifier: Apache-2.0
#include "fs/operations/file_change.h"

#include <algorithm>

#include "transport/base/check.h"
#include "transport/brick/limits.h"

namespace brickfs {
namespace {

using Mode = InodeLocks::Mode;

constexpr uint64_t kToTheEnd = UINT64_MAX;
constexpr uint64_t kUnitsAtOnce = 4096;  // of one write at most: looked up while the size is

}  // namespace

Filesystem::Impl::FileChange::~FileChange() {
  for (const UnitRun& run : allocated_) fs_.space->discard(run);
}

Status Filesystem::Impl::FileChange::look() {
  const InodeLocks lock(fs_.inodes, {ino_}, Mode::kShared);
  const Inode& inode = *TRY(fs_.find_inode(ino_));
  if (inode.is_directory()) return Error(EISDIR, "a directory");
  if (!inode.is_regular()) return Error(EINVAL, "not a regular file");
  size_ = inode.size_bytes;
  mode_ = inode.mode;
  looked_at_ = {first_unit(), end_unit() - first_unit()};
  if (looked_at_.count > kUnitsAtOnce) looked_at_.count = 0;
  mapped_.clear();
  if (inode.extents && looked_at_.count > 0) mapped_ = inode.extents->find(looked_at_.first, looked_at_.count);
  return {};
}

Status Filesystem::Impl::FileChange::lock_range(uint64_t first_unit, uint64_t end_unit) {
  hold_ = RangeLocks::Hold();  // never wait for one while holding another
  hold_ = TRY(fs_.ranges.lock(ino_, first_unit, end_unit, RangeLocks::Mode::kExclusive, context_.interruption));
  return look();
}

Status Filesystem::Impl::FileChange::lock(uint64_t offset, uint64_t length) {
  if (offset > limits::kFileBytes || length > limits::kFileBytes - offset)
    return Error(EFBIG, "beyond the largest file");
  offset_ = offset;
  end_ = offset + length;
  const auto first_needed = [this] { return (end_ > size_ ? std::min(offset_, size_) : offset_) / kUnitBytes; };
  for (uint64_t first = first_unit();; first = first_needed()) {
    TRY(lock_range(first, end_unit()));
    if (first_needed() >= first) return {};  // else the end is, or came down, before it
  }
}

bool Filesystem::Impl::FileChange::try_lock_within(uint64_t offset, uint64_t length) {
  if (offset > limits::kFileBytes || length > limits::kFileBytes - offset) return false;
  offset_ = offset;
  end_ = offset + length;
  auto hold = fs_.ranges.try_lock(ino_, first_unit(), end_unit(), RangeLocks::Mode::kExclusive);
  if (!hold || !look().ok() || end_ > size_) return false;
  hold_ = std::move(*hold);
  return true;
}

Status Filesystem::Impl::FileChange::lock_append(uint64_t length) {
  TRY(look());
  uint64_t first = 0;
  do {
    first = size_ / kUnitBytes;
    TRY(lock_range(first, kToTheEnd));
  } while (size_ / kUnitBytes < first);
  if (length > limits::kFileBytes - size_) return Error(EFBIG, "beyond the largest file");
  offset_ = size_;
  end_ = offset_ + length;
  return {};
}

Status Filesystem::Impl::FileChange::lock_from(uint64_t offset) {
  if (offset > limits::kFileBytes) return Error(EFBIG, "beyond the largest file");
  offset_ = end_ = offset;
  TRY(look());
  uint64_t first = 0;
  do {
    first = std::min(offset_, size_) / kUnitBytes;
    TRY(lock_range(first, kToTheEnd));
  } while (std::min(offset_, size_) / kUnitBytes < first);
  return {};
}

ExtentList Filesystem::Impl::FileChange::extents(uint64_t first, uint64_t end) const {
  if (first < end && first == looked_at_.first && end - first == looked_at_.count) return mapped_;
  const InodeLocks lock(fs_.inodes, {ino_}, Mode::kShared);
  const Inode* inode = fs_.inodes.find(ino_);
  if (inode == nullptr || !inode->extents || first >= end) return {};
  return inode->extents->find(first, end - first);
}

// Where an append goes best: behind the unit before.
uint64_t Filesystem::Impl::FileChange::goal_at(uint64_t file_unit) const {
  if (file_unit == 0) return 0;
  const ExtentList before = extents(file_unit - 1, file_unit);
  return before.empty() ? 0 : before.front().volume_unit + 1;
}

Result<std::vector<Extent>> Filesystem::Impl::FileChange::allocate(uint64_t first, uint64_t end,
                                                                   std::span<const Extent> mapped, Space::For what) {
  std::vector<Extent> holes;
  uint64_t units = 0;
  const auto add_hole = [&](uint64_t hole_end) {
    if (hole_end <= first) return;
    holes.push_back({first, hole_end - first, 0, false});
    units += hole_end - first;
  };
  for (const Extent& extent : mapped) {
    add_hole(extent.file_unit);
    first = extent.end();
  }
  add_hole(end);
  if (units == 0) return std::vector<Extent>();

  const std::vector<UnitRun> runs =
      TRY(fs_.space->allocate(units, goal_at(holes.front().file_unit), context_.interruption, what));
  allocated_.insert(allocated_.end(), runs.begin(), runs.end());
  std::vector<Extent> filled;
  auto hole = holes.begin();
  for (UnitRun run : runs) {
    while (run.count > 0) {
      const uint64_t count = std::min(run.count, hole->count);
      filled.push_back({hole->file_unit, count, run.first, false});
      run = {run.first + count, run.count - count};
      hole->file_unit += count;
      hole->count -= count;
      if (hole->count == 0) ++hole;
    }
  }
  return filled;
}

Status Filesystem::Impl::FileChange::fill_holes() {
  const ExtentList mapped = extents(first_unit(), end_unit());
  for (Extent extent : TRY(allocate(first_unit(), end_unit(), mapped))) {
    extent.unwritten = true;
    map(extent);
  }
  return {};
}

void Filesystem::Impl::FileChange::zero(uint64_t from, uint64_t to) {
  if (from >= to) return;
  for (const Extent& extent : extents(from / kUnitBytes, divide_up(to, kUnitBytes))) {
    if (extent.unwritten) continue;
    const uint64_t start = extent.file_unit * kUnitBytes;
    const uint64_t low = std::max(from, start);
    const uint64_t high = std::min(to, extent.end() * kUnitBytes);
    pieces_.add_zeros(extent.volume_unit * kUnitBytes + (low - start), high - low);
  }
}

void Filesystem::Impl::FileChange::zero_outside(uint64_t first_unit, uint64_t end_unit) {
  zero(offset_, std::min(end_, first_unit * kUnitBytes));
  zero(std::max(offset_, end_unit * kUnitBytes), end_);
}

void Filesystem::Impl::FileChange::zero_gap(uint64_t to) {
  if (size_ % kUnitBytes == 0) return;
  touches_deferred_truncation();
  zero(size_, std::min(to, round_up(size_, kUnitBytes)));
}

Status Filesystem::Impl::FileChange::apply(const Outcome& outcome) {
  if (!pieces_.empty()) {
    if (waits_for_truncation_) TRY(fs_.truncations.wait_until_durable(ino_, *fs_.journal, context_.interruption));
    TRY(fs_.volume->write(pieces_.pieces(), Stage::kData, context_.interruption));
  }
  if (filled_ == nullptr) return record(outcome);
  TRY(adopt_filled());
  TRY(record(outcome));
  for (const UnitRun& run : filled_->runs) fs_.space->keep_lent(run);
  return {};
}

void Filesystem::Impl::FileChange::fill_with(const FilledRange& filled) {
  filled_ = &filled;
  unmap(first_unit(), end_unit());
  uint64_t at = first_unit();
  for (const UnitRun& run : filled.runs) {
    map({at, run.count, run.first, false});
    at += run.count;
  }
  CHECK(at == end_unit());
}

// From now on they are the volume's own writes: a commit names them, and a brick that restarts gets them again.
Status Filesystem::Impl::FileChange::adopt_filled() {
  std::vector<LentRange> ranges;
  for (const UnitRun& run : filled_->runs) ranges.push_back({run.address(), run.count * kUnitBytes});
  return fs_.volume->adopt(ranges, filled_->written, filled_->bytes, context_.interruption);
}

Status Filesystem::Impl::FileChange::record(const Outcome& outcome) {
  const InodeLocks lock(fs_.inodes, {ino_}, Mode::kExclusive);
  Inode& inode = *TRY(fs_.find_inode(ino_));
  Transaction transaction;
  std::vector<UnitRun> freed;
  for (const Units& units : unmaps_) {
    if (!inode.extents) break;
    const uint64_t mapped = inode.extents->mapped_units();
    inode.extents->unmap(units.first, units.count, &freed);
    if (inode.extents->mapped_units() != mapped) transaction.erase_extents(ino_, units.first, units.count);
  }
  record_maps(transaction, inode);
  if (inode.extents && inode.extents->empty()) inode.extents.reset();
  const bool changed = change_inode(outcome, transaction, inode);
  // Bytes in place may have changed within a tick of the clock: a member's write is noted all the same.
  if (!changed && transaction.empty() && context_.call.number == 0) return {};
  fs_.put_inode(transaction, inode);
  const Lsn lsn = fs_.append(transaction, context_);
  for (const UnitRun& run : freed) fs_.space->release(run, lsn);
  if (defers_truncation_) fs_.truncations.note(ino_, lsn, fs_.journal->durable());
  return {};
}

void Filesystem::Impl::FileChange::record_maps(Transaction& transaction, Inode& inode) {
  if (!maps_.empty() && !inode.extents) inode.extents = std::make_unique<ExtentMap>();
  for (const Extent& extent : maps_) {
    // Into a hole, or onto the same units in the other state: nothing is freed.
    inode.extents->map(extent, nullptr);
    transaction.put(ExtentRow{ino_, extent.file_unit, extent.count, extent.volume_unit, extent.unwritten});
    if (transaction.bytes().size() > limits::kTransactionBytes / 2) {
      fs_.journal->append(transaction, context_.wake_later);
      transaction.clear();
    }
  }
  allocated_.clear();
}

// True if it did change.
bool Filesystem::Impl::FileChange::change_inode(const Outcome& outcome, Transaction& transaction, Inode& inode) {
  const TimeNs time = now();
  bool changed = false;
  const auto set = [&changed](auto& member, auto value) {
    changed |= member != value;
    member = value;
  };
  if (outcome.size_bytes) set(inode.size_bytes, *outcome.size_bytes);
  if (outcome.stamp_mtime) set(inode.mtime, time);
  if (outcome.stamp_ctime) set(inode.ctime, time);
  if (!outcome.keeps_capabilities) changed |= fs_.drop_capabilities(transaction, inode);
  if (outcome.unprivileged != nullptr) {
    const uint32_t mode = inode.mode;
    fs_.kill_privileges(transaction, inode, *outcome.unprivileged);
    changed |= inode.mode != mode;
  }
  if (outcome.edit != nullptr && *outcome.edit) {
    (*outcome.edit)(transaction, inode);
    changed = true;
  }
  return changed;
}

}  // namespace brickfs
