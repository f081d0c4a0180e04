// SPDX-License-Identifier: Apache-2.0
// Writing. What is mapped and written is overwritten in place; what is not gets fresh units, filled whole (zeros around
// the data); all of it leaves in one batch, and only then does the transaction show it.
#include <algorithm>

#include "fs/operations/file_change.h"

namespace brickfs {
namespace {

struct Span {
  uint64_t low;
  uint64_t high;
};

// The extent's bytes that the write covers.
Span covered(const Extent& extent, uint64_t offset, uint64_t end) {
  return {std::max(extent.file_unit * kUnitBytes, offset), std::min(extent.end() * kUnitBytes, end)};
}

void replace(PieceList& pieces, const Extent& extent, Span bytes, SliceCursor& from) {
  const uint64_t start = extent.file_unit * kUnitBytes;
  pieces.add(extent.volume_unit * kUnitBytes + (bytes.low - start), from, bytes.high - bytes.low);
}

void fill(PieceList& pieces, const Extent& extent, Span bytes, SliceCursor& from) {
  const uint64_t start = extent.file_unit * kUnitBytes;
  const uint64_t address = extent.volume_unit * kUnitBytes;
  pieces.add_zeros(address, bytes.low - start);
  pieces.add(address + (bytes.low - start), from, bytes.high - bytes.low);
  pieces.add_zeros(address + (bytes.high - start), extent.end() * kUnitBytes - bytes.high);
}

bool by_file_unit(const Extent& a, const Extent& b) { return a.file_unit < b.file_unit; }

}  // namespace

Status Filesystem::Impl::write_range(FileChange& change, std::span<const LocalSlice> from, const Caller* unprivileged,
                                     bool mapped) {
  ExtentList targets = change.extents(change.first_unit(), change.end_unit());
  std::vector<Extent> fresh = TRY(change.allocate(change.first_unit(), change.end_unit(), targets,
                                                  mapped ? Space::For::kWriteback : Space::For::kAnything));
  for (Extent& extent : fresh) extent.unwritten = true;  // as far as filling goes; it is new to the map, too
  for (const Extent& extent : targets) {
    if (extent.unwritten) change.touches_deferred_truncation();
  }
  const auto middle = targets.insert(targets.end(), fresh.begin(), fresh.end());
  std::inplace_merge(targets.begin(), middle, targets.end(), by_file_unit);

  const bool grows = change.end() > change.size();
  if (grows) change.zero_gap(change.offset());
  SliceCursor cursor(from);
  for (const Extent& extent : targets) {
    const Span bytes = covered(extent, change.offset(), change.end());
    if (!extent.unwritten) {
      replace(change.pieces(), extent, bytes, cursor);
      continue;
    }
    fill(change.pieces(), extent, bytes, cursor);
    change.map({extent.file_unit, extent.count, extent.volume_unit, false});
  }
  // With its write-back cache the kernel keeps the times, and sets them.
  const bool stamp = !options.writeback_cache;
  return change.apply({.size_bytes = grows ? std::optional(change.end()) : std::nullopt,
                       .stamp_mtime = stamp,
                       .stamp_ctime = stamp,
                       .unprivileged = unprivileged,
                       .keeps_capabilities = mapped});
}

bool Filesystem::Impl::plan_overwrite(FileChange& change, std::span<const LocalSlice> from, PieceList& pieces) {
  const ExtentList targets = change.extents(change.first_unit(), change.end_unit());
  uint64_t unit = change.first_unit();
  for (const Extent& extent : targets) {
    if (extent.unwritten || extent.file_unit != unit) return false;
    unit = extent.end();
  }
  if (unit < change.end_unit()) return false;
  SliceCursor cursor(from);
  for (const Extent& extent : targets) replace(pieces, extent, covered(extent, change.offset(), change.end()), cursor);
  return true;
}

Status Filesystem::Impl::record_overwrite(FileChange& change, bool mapped) {
  const bool stamp = !options.writeback_cache;
  return change.record({.stamp_mtime = stamp, .stamp_ctime = stamp, .keeps_capabilities = mapped});
}

Status Filesystem::cover_lost(Ino ino, uint64_t end) {
  const OperationContext nobody;  // waits for this
  TRY(impl_->admit_change(nobody));
  // Whoever asks may hold ranges of the file, which then lie within it.
  const auto attributes = get_attributes(ino, nobody);
  if (attributes.ok() && end <= attributes->size_bytes) return {};
  Impl::FileChange change(*impl_, ino, nobody);
  TRY(change.lock_from(end));
  if (change.end() <= change.size()) return {};
  change.zero_gap(change.end());
  return change.apply({.size_bytes = change.end()});
}

Result<uint64_t> Filesystem::write(Ino ino, uint64_t offset, std::span<const LocalSlice> from, bool append,
                                   const Caller* unprivileged, bool mapped, const OperationContext& context) {
  const uint64_t length = total_bytes(from);
  if (length == 0) return 0;
  TRY(impl_->admit_change(context));
  Impl::FileChange change(*impl_, ino, context);
  TRY(append ? change.lock_append(length) : change.lock(offset, length));
  TRY(impl_->write_range(change, from, unprivileged, mapped));
  return length;
}

Result<uint64_t> Filesystem::overwrite(Ino ino, uint64_t offset, std::span<const LocalSlice> from,
                                       const OperationContext& context) {
  const uint64_t length = total_bytes(from);
  if (length == 0) return 0;
  TRY(impl_->admit_change(context));
  Impl::FileChange change(*impl_, ino, context);
  TRY(change.lock(offset, length));
  if (change.end() > change.size()) return Error(ERANGE, "it would make the file longer");
  if (change.has_set_id_bits()) return Error(ERANGE, "it would take set-uid bits away");
  TRY(impl_->write_range(change, from, nullptr, false));
  return length;
}

}  // namespace brickfs
