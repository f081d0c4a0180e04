// SPDX-License-Identifier: Apache-2.0
// copy_file_range: read and written through a bounded buffer; holes stay holes. As on other file systems the copy is
// not one step: others may see and change parts of it meanwhile.
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "fs/operations/file_change.h"
#include "transport/brick/limits.h"

namespace brickfs {
namespace {

constexpr uint64_t kCopyBytes = 1 * kMiB;  // at a time

// What begins at an offset of the source: so many bytes, all of them hole or all of them data.
struct Step {
  uint64_t bytes = 0;
  bool hole = false;
};

Result<Step> next_step(Filesystem& filesystem, Ino from, uint64_t offset, uint64_t length) {
  const auto data = filesystem.seek(from, offset, SEEK_DATA);
  if (data.code() == ENXIO) return Step{length, true};
  if (!data.ok()) return data.error();
  if (*data > offset) return Step{std::min(length, *data - offset), true};
  const auto hole = filesystem.seek(from, offset, SEEK_HOLE);
  const uint64_t run = hole.ok() && *hole > offset ? *hole - offset : length;
  return Step{std::min({length, run, kCopyBytes}), false};
}

}  // namespace

// Zeros without units: a hole where the target has something, a longer file where it ends.
Status Filesystem::Impl::copy_hole(Ino to, uint64_t offset, uint64_t length, const Caller* unprivileged,
                                   const OperationContext& context) {
  TRY(admit_change(context));
  FileChange change(*this, to, context);
  TRY(change.lock(offset, length));
  return punch_hole(change, false, unprivileged);
}

// Done is the call only when all its parts are.
Result<uint64_t> Filesystem::copy_for_member(Ino from, uint64_t from_offset, Ino to, uint64_t to_offset,
                                             uint64_t length, const Caller* unprivileged,
                                             const OperationContext& context) {
  OperationContext of_parts = context;
  of_parts.call = {};
  const auto copied = copy_range(from, from_offset, to, to_offset, length, unprivileged, of_parts);
  if (!copied.ok() || *copied == 0) return copied;
  Transaction done;
  impl_->append(done, context, {.first = *copied});
  return copied;
}

Result<uint64_t> Filesystem::copy_range(Ino from, uint64_t from_offset, Ino to, uint64_t to_offset, uint64_t length,
                                        const Caller* unprivileged, const OperationContext& context) {
  if (context.call.number != 0) return copy_for_member(from, from_offset, to, to_offset, length, unprivileged, context);
  const Attributes source = TRY(get_attributes(from, context));
  if (from_offset >= source.size_bytes || length == 0) return 0;
  length = std::min(length, source.size_bytes - from_offset);
  if (to_offset > limits::kFileBytes || length > limits::kFileBytes - to_offset)
    return Error(EFBIG, "beyond the largest file");
  if (from == to && from_offset < to_offset + length && to_offset < from_offset + length) {
    return Error(EINVAL, "the ranges overlap");
  }
  std::vector<std::byte> buffer;
  uint64_t done = 0;
  const auto failed = [&done](Error error) { return done > 0 ? Result<uint64_t>(done) : Result<uint64_t>(error); };
  while (done < length) {
    const auto step = next_step(*this, from, from_offset + done, length - done);
    if (!step.ok()) return failed(step.error());
    if (step->hole) {
      if (const Status status = impl_->copy_hole(to, to_offset + done, step->bytes, unprivileged, context);
          !status.ok())
        return failed(status.error());
      done += step->bytes;
      continue;
    }
    buffer.resize(kCopyBytes);
    LocalSlice slice{buffer.data(), static_cast<uint32_t>(step->bytes), 0};
    const auto read_bytes = read(from, from_offset + done, std::span(&slice, 1), Touch::kAtime, context);
    if (!read_bytes.ok()) return failed(read_bytes.error());
    if (*read_bytes == 0) break;  // the source has become shorter
    slice.length_bytes = static_cast<uint32_t>(*read_bytes);
    const auto written = write(to, to_offset + done, std::span(&slice, 1), false, unprivileged, false, context);
    if (!written.ok()) return failed(written.error());
    done += *written;
  }
  return done;
}

}  // namespace brickfs
