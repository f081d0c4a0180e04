// SPDX-License-Identifier: Apache-2.0
#include "transport/volume/transfer_round.h"

#include <algorithm>

namespace brickfs {

TransferRound::TransferRound(std::span<const Piece> pieces, Direction direction, const LocalKeys::Own& keys,
                             const StagedWrite* staged)
    : pieces_(pieces), direction_(direction), keys_(keys), staged_(staged) {
  lengths_.reserve(pieces.size());
  for (const Piece& piece : pieces) {
    uint64_t length = 0;
    for (const LocalSlice& slice : piece.local) length += slice.length_bytes;
    lengths_.push_back(length);
    total_bytes_ += length;
  }
  skip_empty();
  done_ = at_;
}

void TransferRound::skip_empty() {
  while (at_.piece < pieces_.size() && at_.offset == lengths_[at_.piece]) at_ = Cursor{at_.piece + 1, 0, 0, 0};
}

BlockSet TransferRound::blocks() const {
  BlockSet touched;
  for (size_t i = 0; i < pieces_.size(); ++i) {
    if (lengths_[i] == 0) continue;
    const BlockAddress first = block_of(pieces_[i].address);
    const BlockAddress last = block_of(pieces_[i].address + lengths_[i] - 1);
    touched.insert({first, (raw(last) - raw(first)) / kBlockBytes + 1});
  }
  return touched;
}

void TransferRound::restart() {
  at_ = done_;
  leases_.clear();
  cuts_.clear();
  slices_.clear();
}

uint64_t TransferRound::next_blocks() const {
  const uint64_t first = next_address();
  const uint64_t last = pieces_[at_.piece].address + lengths_[at_.piece] - 1;
  return last / kBlockBytes - first / kBlockBytes + 1;
}

void TransferRound::add(HandleCache::Lease lease) {
  const Handle& handle = lease.handle();
  const size_t piece = at_.piece;
  leases_.push_back(std::move(lease));
  while (wants_more() && at_.piece == piece && next_address() < raw(handle.blocks.end())) {
    cut(leases_.size() - 1, raw(handle.blocks.end()) - next_address());
  }
}

// One transfer of at most so many bytes.
void TransferRound::cut(size_t lease, uint64_t most) {
  const std::vector<LocalSlice>& local = pieces_[at_.piece].local;
  Cut cut{lease, next_address(), slices_.size(), 0};
  uint64_t room = std::min({most, limits::kTransferBytes, lengths_[at_.piece] - at_.offset});
  while (room > 0 && cut.slices < limits::kSlicesPerTransfer) {
    const LocalSlice& slice = local[at_.slice];
    const auto length = static_cast<uint32_t>(std::min<uint64_t>(room, slice.length_bytes - at_.slice_offset));
    if (length > 0) {
      slices_.push_back({slice.data + at_.slice_offset, length, keys_.of(slice.local_key)});
      ++cut.slices;
    }
    room -= length;
    at_.offset += length;
    at_.slice_offset += length;
    if (at_.slice_offset == slice.length_bytes) {
      ++at_.slice;
      at_.slice_offset = 0;
    }
  }
  cuts_.push_back(cut);
  skip_empty();
}

Batch& TransferRound::batch() {
  batch_.transfers.clear();
  batch_.transfers.reserve(cuts_.size());
  for (const Cut& cut : cuts_) {
    const Handle& handle = leases_[cut.lease].handle();
    batch_.transfers.push_back({direction_, handle, cut.address - raw(handle.blocks.start),
                                std::span(slices_).subspan(cut.first_slice, cut.slices)});
  }
  return batch_;
}

void TransferRound::copy_to(ReplayLog& log, Stage stage, std::vector<ReplayLog::Record>& records) const {
  for (const Cut& cut : cuts_) {
    log.copy(cut.address, std::span(slices_).subspan(cut.first_slice, cut.slices), stage, records, staged_);
  }
}

void TransferRound::written(uint64_t generation) const {
  for (const HandleCache::Lease& lease : leases_) lease.written(generation);
}

void TransferRound::finish() {
  done_ = at_;
  restart();
}

}  // namespace brickfs
