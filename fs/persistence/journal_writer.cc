// SPDX-License-Identifier: Apache-2.0
#include "fs/persistence/journal_writer.h"

#include <algorithm>
#include <cstring>

#include "transport/base/check.h"

namespace brickfs {

Status JournalWriter::start(uint64_t seed, const JournalEnd& end) {
  seed_ = seed;
  buffer_.resize(kBlockBytes);
  registration_ = TRY(volume_.register_memory(buffer_));
  if (end.fresh_dirty) {
    // Committed, so that no old batch can come back behind the new ones.
    TRY(write_at(raw(end.fresh), kBlockBytes));
    TRY(volume_.commit());
  }
  volume_.map_ahead({end.fresh, 1});
  {
    MutexLock lock(mutex_);
    chain_ = end.chain;
    chain_.push_back(end.fresh);
  }
  return take_spare();
}

Status JournalWriter::take_spare() {
  if (spare_) return {};
  const BlockRange block = TRY(space_.allocate_metadata(1));
  volume_.map_ahead(block);
  // Before a header that names it can become durable, it exists durably.
  const Status committed = volume_.commit();
  if (!committed.ok()) {
    static_cast<void>(space_.free_metadata(block));
    return committed;
  }
  spare_ = block.start;
  return {};
}

size_t JournalWriter::room_bytes() const {
  const size_t used = (offset_ == 0 ? sizeof(JournalBlockHeader) : offset_) + sizeof(JournalBatchHeader);
  return used < kBlockBytes ? kBlockBytes - used : 0;
}

Result<bool> JournalWriter::advance() {
  if (offset_ == 0) return false;
  TRY(take_spare());
  {
    MutexLock lock(mutex_);
    chain_.push_back(*spare_);
  }
  offset_ = 0;
  spare_.reset();
  // Needed when the block is opened. If there is none now, there may be one by then.
  static_cast<void>(take_spare());
  return true;
}

Status JournalWriter::write(std::span<const std::byte> payload, uint32_t transactions, Lsn first, Lsn durable_through) {
  CHECK(!payload.empty() && payload.size() <= room_bytes());
  const uint64_t block = raw(current_block());
  size_t batch_at = 0;  // in the buffer
  if (offset_ == 0) {
    TRY(take_spare());
    JournalBlockHeader header{.address = block,
                              .next_address = raw(*spare_),
                              .first_lsn = raw(first),
                              .durable_through = raw(durable_through)};
    seal(header, seed_);
    std::memcpy(buffer_.data(), &header, sizeof(header));
    batch_at = sizeof(header);
  }
  JournalBatchHeader header{.transactions = transactions,
                            .address = block + offset_ + batch_at,
                            .first_lsn = raw(first),
                            .durable_through = raw(durable_through)};
  seal(header, payload, seed_);
  std::byte* const batch = buffer_.data() + batch_at;
  std::memcpy(batch, &header, sizeof(header));
  std::memcpy(batch + sizeof(header), payload.data(), payload.size());
  const size_t padded = batch_bytes(payload.size());
  std::memset(batch + sizeof(header) + payload.size(), 0, padded - sizeof(header) - payload.size());
  TRY(write_at(block + offset_, batch_at + padded));
  offset_ += batch_at + padded;
  return {};
}

void JournalWriter::give_back_spare() {
  if (offset_ != 0 || !spare_) return;
  static_cast<void>(space_.free_metadata({*spare_, 1}));
  spare_.reset();
}

// The first `bytes` of the buffer.
Status JournalWriter::write_at(uint64_t address, size_t bytes) {
  const Piece piece{address, {LocalSlice{buffer_.data(), static_cast<uint32_t>(bytes), registration_.local_key()}}};
  return volume_.write({&piece, 1}, Stage::kJournal);
}

BlockAddress JournalWriter::current_block() const {
  MutexLock lock(mutex_);
  return chain_.back();
}

uint64_t JournalWriter::chain_blocks() const {
  MutexLock lock(mutex_);
  return chain_.size();
}

Status JournalWriter::drop_before(BlockAddress block) {
  std::vector<BlockAddress> dropped;
  {
    MutexLock lock(mutex_);
    const auto kept = std::find(chain_.begin(), chain_.end(), block);
    CHECK(kept != chain_.end());
    dropped.assign(chain_.begin(), kept);
    chain_.erase(chain_.begin(), kept);
  }
  Status result;
  for (const BlockAddress address : dropped) {
    const Status freed = space_.free_metadata({address, 1});
    if (!freed.ok()) result = freed;
  }
  return result;
}

}  // namespace brickfs
