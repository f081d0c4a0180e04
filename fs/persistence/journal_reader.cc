// SPDX-License-Identifier: Apache-2.0
#include "fs/persistence/journal_reader.h"

#include <cstring>
#include <optional>

#include "absl/container/flat_hash_set.h"
#include "fmt/core.h"
#include "fs/base/block_ranges.h"
#include "fs/persistence/journal_format.h"
#include "transport/base/zero.h"
#include "transport/brick/limits.h"

namespace brickfs {
namespace {

// Not the superblock's block either.
bool may_be_journal(BlockAddress block) {
  return raw(block) % kBlockBytes == 0 && raw(block) != 0 && raw(block) < limits::kVolumeBytes;
}

class JournalReader {
 public:
  JournalReader(VolumeSet& volume, uint64_t seed, std::span<const BlockRange> allocated, RowVisitor& visitor)
      : volume_(volume),
        seed_(seed),
        allocated_(allocated),
        visitor_(visitor),
        trusted_(volume.trusted_position().value_or(UINT64_MAX)),
        block_(kBlockBytes) {}

  Result<JournalEnd> read(Lsn first, BlockAddress first_block);

 private:
  Status load_block(BlockAddress address);
  Status replay_block();
  Status replay_batch(const JournalBatchHeader& batch, size_t offset);
  Status find_claim(std::optional<JournalBlockHeader> header);
  bool claims_missing(size_t offset);
  Status damaged(std::string text);

  VolumeSet& volume_;
  const uint64_t seed_;
  const std::span<const BlockRange> allocated_;
  RowVisitor& visitor_;
  const uint64_t trusted_;  // the last transaction to be believed
  std::vector<std::byte> block_;
  BlockAddress address_{};  // of block_
  size_t batches_end_ = 0;  // of what was replayed of block_
  JournalEnd end_;
};

// Fails nothing: the reading ends, and says why.
Status JournalReader::damaged(std::string text) {
  if (end_.damage.empty()) end_.damage = std::move(text);
  return {};
}

Status JournalReader::load_block(BlockAddress address) {
  const Piece piece{raw(address), {LocalSlice{block_.data(), static_cast<uint32_t>(block_.size()), 0}}};
  TRY(volume_.read({&piece, 1}));
  address_ = address;
  return {};
}

Result<JournalEnd> JournalReader::read(Lsn first, BlockAddress first_block) {
  end_.next = first;
  BlockAddress address = first_block;
  absl::flat_hash_set<uint64_t> seen;
  while (true) {
    if (!may_be_journal(address) || !contains(allocated_, address)) {
      TRY(damaged(fmt::format("journal block {:#x} does not exist", raw(address))));
      return end_;
    }
    if (!seen.insert(raw(address)).second) {
      TRY(damaged(fmt::format("the journal's chain of blocks runs in a circle at {:#x}", raw(address))));
      return end_;
    }
    TRY(load_block(address));
    const auto header = parse_block_header(block_, raw(address), seed_);
    if (!header || header->first_lsn != raw(end_.next)) {
      end_.fresh = address;
      end_.fresh_dirty = !is_zero(block_);
      if (end_.fresh_dirty) TRY(find_claim(header));
      return end_;
    }
    end_.chain.push_back(address);
    TRY(replay_block());
    if (!end_.damage.empty()) return end_;
    if (claims_missing(batches_end_)) return end_;
    address = BlockAddress{header->next_address};
  }
}

// Every batch from the block's first on that verifies and continues the sequence.
Status JournalReader::replay_block() {
  size_t offset = sizeof(JournalBlockHeader);
  while (offset < block_.size()) {
    const auto batch = parse_batch_header(std::span(block_).subspan(offset), raw(address_) + offset, seed_);
    if (!batch || batch->first_lsn != raw(end_.next)) break;
    if (batch->first_lsn + batch->transactions - 1 > trusted_) {
      end_.void_batch = raw(address_) + offset;
      break;
    }
    TRY(replay_batch(*batch, offset));
    if (!end_.damage.empty()) break;
    offset += batch_bytes(batch->payload_bytes);
  }
  batches_end_ = offset;
  return {};
}

Status JournalReader::replay_batch(const JournalBatchHeader& batch, size_t offset) {
  const auto payload = std::span<const std::byte>(block_).subspan(offset + sizeof(batch), batch.payload_bytes);
  const Status applied =
      for_each_transaction(payload, batch.transactions, [this](std::span<const std::byte> rows) -> Status {
        TRY(decode_rows(rows, visitor_));
        end_.next = brickfs::next(end_.next);
        ++end_.transactions;
        return {};
      });
  if (applied.ok() || !applied.error().is(EUCLEAN)) return applied;
  return damaged(fmt::format("journal transaction {} (batch at {:#x}) verifies but makes no sense: {}", raw(end_.next),
                             raw(address_) + offset, applied.error().what()));
}

// True, with `damage` set, if a batch of this block behind `offset` knows the missing transaction to have been durable.
bool JournalReader::claims_missing(size_t offset) {
  for (size_t at = round_up(offset, kBatchAlignment); at < block_.size(); at += kBatchAlignment) {
    uint32_t magic = 0;
    std::memcpy(&magic, block_.data() + at, sizeof(magic));
    if (magic != JournalBatchHeader::kMagic) continue;
    const auto batch = parse_batch_header(std::span(block_).subspan(at), raw(address_) + at, seed_);
    if (!batch || batch->durable_through < raw(end_.next)) continue;
    end_.damage = fmt::format(
        "journal transaction {} is missing or damaged (expected at {:#x}), but the batch at {:#x} behind it is whole",
        raw(end_.next), raw(address_) + offset, raw(address_) + at);
    return true;
  }
  return false;
}

// The chain has ended at the block just loaded, which does not continue it. Looks through it and what follows it.
Status JournalReader::find_claim(std::optional<JournalBlockHeader> header) {
  absl::flat_hash_set<uint64_t> seen;
  while (seen.insert(raw(address_)).second) {
    if (header && header->durable_through >= raw(end_.next)) {
      return damaged(fmt::format("journal transaction {} is missing or damaged, but block {:#x} behind it is whole",
                                 raw(end_.next), raw(address_)));
    }
    if (claims_missing(0) || !header) return {};
    const BlockAddress following{header->next_address};
    if (!may_be_journal(following) || !contains(allocated_, following)) return {};
    TRY(load_block(following));
    header = parse_block_header(block_, raw(following), seed_);
  }
  return {};
}

}  // namespace

Result<JournalEnd> read_journal(VolumeSet& volume, uint64_t seed, Lsn first, BlockAddress first_block,
                                std::span<const BlockRange> allocated, RowVisitor& visitor) {
  return JournalReader(volume, seed, allocated, visitor).read(first, first_block);
}

}  // namespace brickfs
