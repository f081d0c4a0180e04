// SPDX-License-Identifier: Apache-2.0
#include "transport/volume/active_blocks.h"

#include <algorithm>
#include <optional>

namespace brickfs {

ActiveBlocks::Ranges ActiveBlocks::ranges_of(std::span<const Piece> pieces) {
  Ranges ranges;
  for (const Piece& piece : pieces) {
    uint64_t length = 0;
    for (const LocalSlice& slice : piece.local) length += slice.length_bytes;
    if (length > 0) ranges.push_back({piece.address, piece.address + length});
  }
  return ranges;
}

bool ActiveBlocks::overlaps(const Ranges& ranges) const {
  return std::ranges::any_of(claimed_, [&](const Claim::Bytes& claimed) {
    return std::ranges::any_of(
        ranges, [&](const Claim::Bytes& range) { return range.first < claimed.end && claimed.first < range.end; });
  });
}

bool ActiveBlocks::has_writer(uint64_t block) const {
  return std::ranges::any_of(claimed_, [&](const Claim::Bytes& claimed) {
    return claimed.first < block + kBlockBytes && block < claimed.end;
  });
}

ActiveBlocks::Claim ActiveBlocks::take(Ranges ranges) {
  claimed_.insert(claimed_.end(), ranges.begin(), ranges.end());
  Claim claim;
  claim.owner_ = this;
  claim.ranges_ = std::move(ranges);
  return claim;
}

void ActiveBlocks::give_back(Claim& claim) {
  MutexLock lock(mutex_);
  for (const Claim::Bytes& range : claim.ranges_) {
    const auto found = std::ranges::find_if(claimed_, [&](const Claim::Bytes& claimed) {
      return claimed.first == range.first && claimed.end == range.end;
    });
    *found = claimed_.back();
    claimed_.pop_back();
  }
  changed_.notify_all();
}

Result<ActiveBlocks::Claim> ActiveBlocks::claim(std::span<const Piece> pieces, const Interruption* by) {
  Ranges ranges = ranges_of(pieces);
  Claim claim;
  {
    MutexLock lock(mutex_);
    while (overlaps(ranges)) TRY(wait_interruptibly(changed_, lock, by));
    claim = take(ranges);
  }
  TRY(activate(ranges, by));
  return claim;
}

Result<ActiveBlocks::Claim> ActiveBlocks::try_claim(std::span<const Piece> pieces) {
  Ranges ranges = ranges_of(pieces);
  MutexLock lock(mutex_);
  if (overlaps(ranges)) return Error(EAGAIN, "being written");
  for (const Claim::Bytes& range : ranges) {
    for (uint64_t block = round_down(range.first, kBlockBytes); block < range.end; block += kBlockBytes) {
      const auto entry = entries_.find(block);
      if (entry == entries_.end() || !entry->second.written) return Error(EAGAIN, "has no row");
    }
  }
  return take(std::move(ranges));
}

ActiveBlocks::Claim ActiveBlocks::hold(BlockRange blocks) {
  Ranges ranges{{raw(blocks.start), raw(blocks.end())}};
  MutexLock lock(mutex_);
  while (overlaps(ranges)) changed_.wait(lock);
  return take(std::move(ranges));
}

void ActiveBlocks::keep(BlockRange blocks) {
  MutexLock lock(mutex_);
  kept_.insert(blocks);
}

void ActiveBlocks::let_go(BlockRange blocks) {
  MutexLock lock(mutex_);
  kept_.erase(blocks);
  changed_.notify_all();
}

// One whose block nobody writes to; in turn, so that those written to lately keep theirs.
std::optional<size_t> ActiveBlocks::free_row() {
  for (size_t tried = 0; tried < rows_.size(); ++tried) {
    const size_t row = next_row_;
    next_row_ = (next_row_ + 1) % rows_.size();
    if (rows_[row] == 0) return row;
    const uint64_t block = rows_[row] - 1;
    const auto entry = entries_.find(block);
    if (has_writer(block) || !entry->second.written || kept_.contains(BlockRange{BlockAddress{block}, 1})) continue;
    entries_.erase(entry);
    return row;
  }
  return std::nullopt;
}

// The claim is held, so the rows of its blocks stay.
Status ActiveBlocks::activate(const Ranges& ranges, const Interruption* by) {
  for (const Claim::Bytes& range : ranges) {
    for (uint64_t block = round_down(range.first, kBlockBytes); block < range.end; block += kBlockBytes) {
      Row row;
      {
        MutexLock lock(mutex_);
        for (;;) {
          const auto entry = entries_.find(block);
          if (entry == entries_.end()) {
            if (const auto free = free_row()) {
              row.index = *free;
              break;
            }
          } else if (entry->second.written) {
            row.value = 1;
            break;
          }
          TRY(wait_interruptibly(changed_, lock, by));
        }
        if (row.value != 0) continue;
        row.value = block + 1;
        rows_[row.index] = row.value;
        entries_[block] = {row.index, false};
      }
      const Status status = write_(std::span(&row, 1), by);
      MutexLock lock(mutex_);
      if (status.ok()) {
        entries_[block].written = true;
      } else {
        entries_.erase(block);
        rows_[row.index] = 0;  // whatever the replicas have there: one too many at most
      }
      changed_.notify_all();
      TRY(status);
    }
  }
  return {};
}

BlockSet ActiveBlocks::active() const {
  MutexLock lock(mutex_);
  BlockSet blocks;
  for (const auto& [block, entry] : entries_) blocks.insert(BlockRange{BlockAddress{block}, 1});
  return blocks;
}

std::vector<uint64_t> ActiveBlocks::rows() const {
  MutexLock lock(mutex_);
  return rows_;
}

}  // namespace brickfs
