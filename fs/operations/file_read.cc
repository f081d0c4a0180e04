// SPDX-License-Identifier: Apache-2.0
// Reading: one batch of one-sided reads, an extent each, straight into the request's memory. Also seek, which reads the
// map only.
#include "fs/operations/file_read.h"

#include <unistd.h>

#include <algorithm>

#include "transport/brick/limits.h"

namespace brickfs {
namespace {

using Mode = InodeLocks::Mode;

// Fills `into` with file bytes [offset, + length): zeros at once, the rest as pieces to read.
void plan_read(std::span<const Extent> extents, uint64_t offset, uint64_t length, SliceCursor into, PieceList& pieces) {
  const uint64_t end = offset + length;
  for (const Extent& extent : extents) {
    if (extent.unwritten) continue;
    const uint64_t start = extent.file_unit * kUnitBytes;
    const uint64_t low = std::max(start, offset);
    const uint64_t high = std::min(extent.end() * kUnitBytes, end);
    into.fill_with_zeros(low - offset);
    pieces.add(extent.volume_unit * kUnitBytes + (low - start), into, high - low);
    offset = high;
  }
  into.fill_with_zeros(end - offset);
}

// The first byte at or behind `offset` that a written extent covers; none: hole up to the end.
std::optional<uint64_t> first_data(const ExtentMap& extents, uint64_t offset) {
  uint64_t unit = offset / kUnitBytes;
  while (const auto extent = extents.at_or_after(unit)) {
    if (!extent->unwritten) return std::max(offset, extent->file_unit * kUnitBytes);
    unit = extent->end();
  }
  return std::nullopt;
}

// The first byte at or behind `offset` that none covers.
uint64_t first_hole(const ExtentMap& extents, uint64_t offset) {
  uint64_t unit = offset / kUnitBytes;
  while (const auto extent = extents.at_or_after(unit)) {
    if (extent->file_unit > unit || extent->unwritten) break;
    unit = extent->end();
  }
  return std::max(offset, unit * kUnitBytes);
}

}  // namespace

uint64_t Filesystem::Impl::FileRead::end_unit(uint64_t length) const { return divide_up(offset_ + length, kUnitBytes); }

Status Filesystem::Impl::FileRead::begin(std::span<const LocalSlice> into, PieceList& pieces, const Interruption* by) {
  const uint64_t length = std::min(total_bytes(into), limits::kFileBytes - std::min(offset_, limits::kFileBytes));
  if (length == 0) return {};
  hold_ = TRY(fs_.ranges.lock(ino_, offset_ / kUnitBytes, end_unit(length), RangeLocks::Mode::kShared, by));
  return plan(into, pieces);
}

bool Filesystem::Impl::FileRead::try_begin(std::span<const LocalSlice> into, PieceList& pieces) {
  const uint64_t length = total_bytes(into);
  if (length == 0 || offset_ >= limits::kFileBytes || length > limits::kFileBytes - offset_) return false;
  auto hold = fs_.ranges.try_lock(ino_, offset_ / kUnitBytes, end_unit(length), RangeLocks::Mode::kShared);
  if (!hold || !plan(into, pieces).ok()) return false;
  hold_ = std::move(*hold);
  return true;
}

Status Filesystem::Impl::FileRead::plan(std::span<const LocalSlice> into, PieceList& pieces) {
  ExtentList extents;
  {
    const InodeLocks lock(fs_.inodes, {ino_}, Mode::kShared);
    const Inode& inode = *TRY(fs_.find_inode(ino_));
    if (inode.is_directory()) return Error(EISDIR, "a directory");
    if (!inode.is_regular()) return Error(EINVAL, "not a regular file");
    if (offset_ >= inode.size_bytes) return {};
    length_ = std::min({total_bytes(into), limits::kFileBytes - offset_, inode.size_bytes - offset_});
    const uint64_t first_unit = offset_ / kUnitBytes;
    is_touched_ = touch_ == Touch::kAtime && fs_.is_atime_due(inode);
    if (inode.extents) extents = inode.extents->find(first_unit, end_unit(length_) - first_unit);
  }
  plan_read(extents, offset_, length_, SliceCursor(into), pieces);
  return {};
}

uint64_t Filesystem::Impl::FileRead::finish() {
  hold_ = RangeLocks::Hold();
  if (length_ > 0 && is_touched_) fs_.touch_atime(ino_);
  return length_;
}

void Filesystem::note_cached(Ino ino, uint64_t offset, uint64_t length) {
  const InodeLocks lock(impl_->inodes, {ino}, Mode::kShared);
  if (const Inode* const inode = impl_->inodes.find(ino)) inode->cached.add(offset, length);
}

bool Filesystem::is_cached(Ino ino, uint64_t offset, uint64_t length) const {
  const InodeLocks lock(impl_->inodes, {ino}, Mode::kShared);
  const Inode* const inode = impl_->inodes.find(ino);
  return inode != nullptr && inode->cached.touches(offset, length);
}

std::optional<CachedRegions::Range> Filesystem::take_cached(Ino ino, uint64_t offset, uint64_t length) {
  const InodeLocks lock(impl_->inodes, {ino}, Mode::kShared);
  const Inode* const inode = impl_->inodes.find(ino);
  return inode != nullptr ? inode->cached.take(offset, length) : std::nullopt;
}

Result<uint64_t> Filesystem::read(Ino ino, uint64_t offset, std::span<const LocalSlice> into, Touch touch,
                                  const OperationContext& context) {
  Impl::FileRead read(*impl_, ino, offset, touch);
  PieceList pieces;
  TRY(read.begin(into, pieces, context.interruption));
  if (!pieces.empty()) TRY(impl_->volume->read(pieces.pieces(), context.interruption));
  return read.finish();
}

// What is preallocated reads as zeros, as holes do: no part of theirs is told.
Result<FileLayout> Filesystem::layout(Ino ino, uint64_t offset, size_t most_parts) const {
  FileLayout layout;
  layout.begin = round_down(offset, kUnitBytes);
  layout.end = UINT64_MAX;
  {
    const InodeLocks lock(impl_->inodes, {ino}, Mode::kShared);
    const Inode& inode = *TRY(impl_->find_inode(ino));
    if (inode.is_directory()) return Error(EISDIR, "a directory");
    if (!inode.is_regular()) return Error(EINVAL, "not a regular file");
    layout.size_bytes = inode.size_bytes;
    uint64_t unit = offset / kUnitBytes;
    const uint64_t end_unit = divide_up(inode.size_bytes, kUnitBytes);
    for (size_t seen = 0; inode.extents && unit < end_unit; ++seen) {
      const auto extent = inode.extents->at_or_after(unit);
      if (!extent || extent->file_unit >= end_unit) break;
      if (seen == most_parts) {
        layout.end = unit * kUnitBytes;
        break;
      }
      const uint64_t first = std::max(unit, extent->file_unit);
      unit = extent->end();
      if (extent->unwritten) continue;
      layout.parts.push_back({first * kUnitBytes, (extent->volume_unit + (first - extent->file_unit)) * kUnitBytes,
                              (unit - first) * kUnitBytes});
    }
  }
  impl_->add_places(layout);
  return layout;
}

void Filesystem::Impl::add_places(FileLayout& layout) const {
  for (const FileLayout::Part& part : layout.parts) {
    const auto place = static_cast<uint32_t>(volume->place_of(block_of(part.address)));
    if (std::ranges::find(layout.places, place, &FileLayout::Place::place) == layout.places.end())
      layout.places.push_back({place, volume->readable(place)});
  }
}

bool Filesystem::is_atime_due(Ino ino) const {
  const InodeLocks lock(impl_->inodes, {ino}, Mode::kShared);
  const Inode* const inode = impl_->inodes.find(ino);
  return inode != nullptr && impl_->is_atime_due(*inode);
}

Result<uint64_t> FileOperations::Hole::seek(uint64_t offset, int whence) const {
  if (whence == SEEK_HOLE) return begin;
  if (offset < begin) return offset;
  if (end == size) return Error(ENXIO, "no data from here on");
  return end;
}

Result<Filesystem::Hole> Filesystem::next_hole(Ino ino, uint64_t offset, const OperationContext&) {
  const InodeLocks lock(impl_->inodes, {ino}, Mode::kShared);
  const Inode& inode = *TRY(impl_->find_inode(ino));
  if (!inode.is_regular()) return Error(EINVAL, "not a regular file");
  const uint64_t size = inode.size_bytes;
  if (offset >= size) return Error(ENXIO, "at or behind the end");
  if (!inode.extents) return Hole{offset, size, size};
  const uint64_t begin = std::min(first_hole(*inode.extents, offset), size);
  return Hole{begin, std::min(first_data(*inode.extents, begin).value_or(size), size), size};
}

Result<uint64_t> FileOperations::seek(Ino ino, uint64_t offset, int whence) {
  if (whence != SEEK_DATA && whence != SEEK_HOLE) return Error(EINVAL, "neither SEEK_DATA nor SEEK_HOLE");
  return TRY(next_hole(ino, offset)).seek(offset, whence);
}

}  // namespace brickfs
