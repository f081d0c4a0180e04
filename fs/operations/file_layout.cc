// SPDX-License-Identifier: Apache-2.0
// Changes of a file's layout: size, preallocation, holes.
#include <fcntl.h>
#include <linux/falloc.h>

#include <algorithm>

#include "fs/operations/file_change.h"
#include "transport/brick/limits.h"

namespace brickfs {
namespace {

// Whole units within bytes [offset, end). A last unit whose file bytes all lie in the range counts as whole.
struct WholeUnits {
  uint64_t first;
  uint64_t end;
};

WholeUnits whole_units(uint64_t offset, uint64_t end, uint64_t size) {
  const uint64_t first = divide_up(offset, kUnitBytes);
  const uint64_t last = end >= size ? divide_up(end, kUnitBytes) : end / kUnitBytes;
  return {first, std::max(first, last)};
}

}  // namespace

Status Filesystem::Impl::set_size(Ino ino, uint64_t size_bytes, const InodeEdit& edit,
                                  const OperationContext& context) {
  TRY(admit_change(context));
  FileChange change(*this, ino, context);
  TRY(change.lock_from(size_bytes));
  if (size_bytes > change.size()) {
    change.zero_gap(size_bytes);
  } else {
    const uint64_t first = divide_up(size_bytes, kUnitBytes);
    change.unmap(first, UINT64_MAX);
    if (size_bytes % kUnitBytes != 0 && size_bytes < change.size()) change.defers_truncation();
  }
  return change.apply({.size_bytes = size_bytes, .stamp_mtime = true, .stamp_ctime = true, .edit = &edit});
}

// `gap_end`: if the file grows, up to where bytes behind its old end are not zeroed yet.
Status Filesystem::Impl::apply_layout(FileChange& change, uint64_t gap_end, bool keep_size,
                                      const Caller* unprivileged) {
  const bool grows = !keep_size && change.end() > change.size();
  if (grows) change.zero_gap(gap_end);
  return change.apply({.size_bytes = grows ? std::optional(change.end()) : std::nullopt,
                       .stamp_mtime = true,
                       .stamp_ctime = true,
                       .unprivileged = unprivileged});
}

Status Filesystem::Impl::preallocate(FileChange& change, bool keep_size, const Caller* unprivileged) {
  TRY(change.fill_holes());
  return apply_layout(change, change.end(), keep_size, unprivileged);
}

Status Filesystem::Impl::punch_hole(FileChange& change, bool keep_size, const Caller* unprivileged) {
  const WholeUnits whole = whole_units(change.offset(), change.end(), change.size());
  change.zero_outside(whole.first, whole.end);
  if (whole.first < whole.end) change.unmap(whole.first, whole.end);
  return apply_layout(change, change.offset(), keep_size, unprivileged);
}

// Whole units keep their place and read as zeros again, without being written.
Status Filesystem::Impl::zero_range(FileChange& change, bool keep_size, const Caller* unprivileged) {
  TRY(change.fill_holes());
  const WholeUnits whole = whole_units(change.offset(), change.end(), change.size());
  for (Extent extent : change.extents(whole.first, whole.end)) {
    if (extent.unwritten) continue;
    extent.unwritten = true;
    change.map(extent);
    change.defers_truncation();
  }
  change.zero_outside(whole.first, whole.end);
  return apply_layout(change, change.offset(), keep_size, unprivileged);
}

Status Filesystem::allocate(Ino ino, int mode, uint64_t offset, uint64_t length, const Caller* unprivileged,
                            const OperationContext& context) {
  constexpr int kKnown = FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE;
  const bool keep_size = (mode & FALLOC_FL_KEEP_SIZE) != 0;
  const bool punch = (mode & FALLOC_FL_PUNCH_HOLE) != 0;
  const bool zero = (mode & FALLOC_FL_ZERO_RANGE) != 0;
  if ((mode & ~kKnown) != 0 || (punch && (zero || !keep_size))) return Error(EOPNOTSUPP, "this mode of fallocate");
  if (length == 0) return Error(EINVAL, "nothing to allocate");
  TRY(impl_->admit_change(context));
  Impl::FileChange change(*impl_, ino, context);
  TRY(change.lock(offset, length));
  if (punch) return impl_->punch_hole(change, true, unprivileged);
  return zero ? impl_->zero_range(change, keep_size, unprivileged)
              : impl_->preallocate(change, keep_size, unprivileged);
}

}  // namespace brickfs
