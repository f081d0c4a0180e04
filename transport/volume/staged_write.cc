// SPDX-License-Identifier: Apache-2.0
#include "transport/volume/staged_write.h"

#include <algorithm>

#include "transport/base/check.h"
#include "transport/volume/slice_reader.h"

namespace brickfs {

StagedWrite::StagedWrite(std::span<const Piece> pieces, KeptBuffers& buffers) {
  pieces_.reserve(pieces.size());
  for (const Piece& piece : pieces) stage(piece, buffers);
}

void StagedWrite::stage(const Piece& piece, KeptBuffers& buffers) {
  uint64_t left = 0;
  for (const LocalSlice& slice : piece.local) left += slice.length_bytes;
  Piece& staged = pieces_.emplace_back(Piece{piece.address, {}});
  SliceReader reader(piece.local);
  while (left > 0) {
    const auto length = static_cast<uint32_t>(std::min<uint64_t>(left, KeptBuffers::kLargeBytes));
    KeptBuffers::Buffer buffer = buffers.take(length);
    reader.copy_to(buffer.bytes.get(), length);
    staged.local.push_back({buffer.bytes.get(), length, buffer.local_key});
    parts_.push_back({std::move(buffer.bytes), length});
    left -= length;
  }
}

std::shared_ptr<std::byte> StagedWrite::share(std::byte* at) const {
  const auto part = std::ranges::find_if(
      parts_, [at](const Part& one) { return at >= one.bytes.get() && at < one.bytes.get() + one.length_bytes; });
  CHECK(part != parts_.end());
  return {part->bytes, at};
}

}  // namespace brickfs
