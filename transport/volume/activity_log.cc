// SPDX-License-Identifier: Apache-2.0
#include "transport/volume/activity_log.h"

#include <algorithm>

#include "transport/base/check.h"

namespace brickfs {

static uint64_t length_of(const Piece& piece) {
  uint64_t length = 0;
  for (const LocalSlice& slice : piece.local) length += slice.length_bytes;
  return length;
}

ActivityLog::Ranges ActivityLog::ranges_of(std::span<const Piece> pieces) {
  Ranges ranges;
  for (const Piece& piece : pieces) {
    const uint64_t length = length_of(piece);
    if (length > 0) ranges.push_back({piece.address, piece.address + length});
  }
  return ranges;
}

// Ascending, each once.
std::vector<uint64_t> ActivityLog::blocks_of(const Ranges& ranges) {
  std::vector<uint64_t> blocks;
  for (const Claim::Bytes& range : ranges) {
    for (uint64_t block = round_down(range.first, kBlockBytes); block < range.end; block += kBlockBytes)
      blocks.push_back(block);
  }
  std::ranges::sort(blocks);
  blocks.erase(std::unique(blocks.begin(), blocks.end()), blocks.end());
  return blocks;
}

size_t ActivityLog::claimable(std::span<const Piece> pieces) {
  uint64_t blocks = 0;
  for (size_t count = 0; count < pieces.size(); ++count) {
    const Piece& piece = pieces[count];
    blocks += divide_up(piece.address + length_of(piece), kBlockBytes) - piece.address / kBlockBytes;
    if (blocks > kMostBlocks) return std::max<size_t>(count, 1);
  }
  return pieces.size();
}

bool ActivityLog::overlaps(const Ranges& ranges) const {
  return std::ranges::any_of(claimed_, [&](const Claim::Bytes& claimed) {
    return std::ranges::any_of(
        ranges, [&](const Claim::Bytes& range) { return range.first < claimed.end && claimed.first < range.end; });
  });
}

bool ActivityLog::has_writer(uint64_t block) const {
  return std::ranges::any_of(claimed_, [&](const Claim::Bytes& claimed) {
    return claimed.first < block + kBlockBytes && block < claimed.end;
  });
}

ActivityLog::Claim ActivityLog::take(Ranges ranges) {
  claimed_.insert(claimed_.end(), ranges.begin(), ranges.end());
  Claim claim;
  claim.owner_ = this;
  claim.ranges_ = std::move(ranges);
  return claim;
}

void ActivityLog::give_back(Claim& claim) {
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

Result<ActivityLog::Claim> ActivityLog::claim(std::span<const Piece> pieces, const Interruption* by) {
  Ranges ranges = ranges_of(pieces);
  const std::vector<uint64_t> blocks = blocks_of(ranges);
  CHECK(blocks.size() <= kMostBlocks || pieces.size() == 1);
  std::vector<Row> rows;
  Claim claim;
  {
    // Nothing is held by who waits, or many who need many rows could wait for each other.
    MutexLock lock(mutex_);
    while (overlaps(ranges) || !take_rows(blocks, rows)) TRY(wait_interruptibly(changed_, lock, by));
    claim = take(std::move(ranges));
  }
  if (rows.empty()) return claim;
  const Status status = write_(rows, by);
  end_writing(rows, status.ok());
  TRY(status);
  return claim;
}

Result<ActivityLog::Claim> ActivityLog::try_claim(std::span<const Piece> pieces) {
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

ActivityLog::Claim ActivityLog::hold(BlockRange blocks) {
  Ranges ranges{{raw(blocks.start), raw(blocks.end())}};
  MutexLock lock(mutex_);
  while (overlaps(ranges)) changed_.wait(lock);
  return take(std::move(ranges));
}

void ActivityLog::keep(BlockRange blocks) {
  MutexLock lock(mutex_);
  kept_.insert(blocks);
}

void ActivityLog::let_go(BlockRange blocks) {
  MutexLock lock(mutex_);
  kept_.erase(blocks);
  changed_.notify_all();
}

Status ActivityLog::lend(BlockRange blocks, const Interruption* by) {
  {
    MutexLock lock(mutex_);
    if (lent_.count() + blocks.count > kMostLent) return Error(EAGAIN, "as many blocks are lent as may be");
    lent_.insert(blocks);  // from before they get their rows, which so stay
  }
  const Status status = give_rows(blocks, by);
  if (!status.ok()) end_lending(blocks);
  return status;
}

// As for a write to each of them.
Status ActivityLog::give_rows(BlockRange blocks, const Interruption* by) {
  for (uint64_t done = 0; done < blocks.count;) {
    std::vector<Piece> pieces;
    for (; done < blocks.count && pieces.size() < kMostBlocks; ++done)
      pieces.push_back({raw(block_after(blocks.start, done)), {{nullptr, 1, 0}}});
    static_cast<void>(TRY(claim(pieces, by)));
  }
  return {};
}

void ActivityLog::end_lending(BlockRange blocks) {
  MutexLock lock(mutex_);
  lent_.erase(blocks);
  changed_.notify_all();
}

bool ActivityLog::is_lent(BlockRange blocks) const {
  MutexLock lock(mutex_);
  return lent_.intersects(blocks);
}

bool ActivityLog::lends() const {
  MutexLock lock(mutex_);
  return !lent_.empty();
}

// Nobody writes to its block, nor is about to.
bool ActivityLog::is_free(size_t row, const std::vector<uint64_t>& blocks) const {
  if (rows_[row] == 0) return true;
  const uint64_t block = rows_[row] - 1;
  return entries_.find(block)->second.written && !std::ranges::binary_search(blocks, block) && !has_writer(block) &&
         !kept_.contains(BlockRange{BlockAddress{block}, 1}) && !lent_.contains(BlockRange{BlockAddress{block}, 1});
}

// Rows for those blocks that have none, which are to be written; all of them or none. In turn, so that those written to
// lately keep theirs. False: there are not as many, or somebody is just writing one.
bool ActivityLog::take_rows(const std::vector<uint64_t>& blocks, std::vector<Row>& rows) {
  std::vector<uint64_t> missing;
  for (const uint64_t block : blocks) {
    const auto entry = entries_.find(block);
    if (entry == entries_.end()) missing.push_back(block);
    if (entry != entries_.end() && !entry->second.written) return false;
  }
  size_t row = next_row_;
  for (size_t tried = 0; tried < rows_.size() && rows.size() < missing.size(); ++tried) {
    if (is_free(row, blocks)) rows.push_back({row, missing[rows.size()] + 1});
    row = (row + 1) % rows_.size();
  }
  if (rows.size() < missing.size()) {
    rows.clear();
    return false;
  }
  next_row_ = row;
  for (const Row& taken : rows) {
    if (rows_[taken.index] != 0) entries_.erase(rows_[taken.index] - 1);
    rows_[taken.index] = taken.value;
    entries_[taken.value - 1] = {taken.index, false};
  }
  return true;
}

void ActivityLog::end_writing(const std::vector<Row>& rows, bool written) {
  MutexLock lock(mutex_);
  for (const Row& row : rows) {
    if (written) {
      entries_[row.value - 1].written = true;
    } else {
      entries_.erase(row.value - 1);
      rows_[row.index] = 0;  // whatever the replicas have there: one too many at most
    }
  }
  changed_.notify_all();
}

BlockSet ActivityLog::active() const {
  MutexLock lock(mutex_);
  BlockSet blocks;
  for (const auto& [block, entry] : entries_) blocks.insert(BlockRange{BlockAddress{block}, 1});
  return blocks;
}

std::vector<uint64_t> ActivityLog::rows() const {
  MutexLock lock(mutex_);
  return rows_;
}

}  // namespace brickfs
