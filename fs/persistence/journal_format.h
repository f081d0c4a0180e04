// SPDX-License-Identifier: Apache-2.0
// The journal's bytes: a header at the start of each block, then batches. docs/format.md, section "Journal".
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "fs/base/ids.h"
#include "transport/base/result.h"
#include "transport/brick/block.h"

namespace brickfs {

struct JournalBlockHeader {
  static constexpr uint64_t kMagic = 0x314c'4e4a'4b43'5242;  // "BRCKJNL1"

  uint64_t magic = kMagic;
  uint64_t address = 0;          // its own
  uint64_t next_address = 0;     // of the block that follows it in the chain: allocated, empty until this one has ended
  uint64_t first_lsn = 0;        // of the first transaction in it
  uint64_t durable_through = 0;  // as in a batch
  uint64_t reserved[2] = {};
  uint64_t checksum = 0;  // of the 56 bytes before
};
static_assert(sizeof(JournalBlockHeader) == 64);

struct JournalBatchHeader {
  static constexpr uint32_t kMagic = 0x4843'5442;  // "BTCH"

  uint32_t magic = kMagic;
  uint32_t payload_bytes = 0;  // behind this header
  uint32_t transactions = 0;   // in it
  uint32_t reserved = 0;
  uint64_t address = 0;          // volume address of this header
  uint64_t first_lsn = 0;        // of the first transaction; the others follow without a gap
  uint64_t durable_through = 0;  // every transaction up to this one was durable before this batch was written
  uint64_t checksum = 0;         // of the 40 bytes before and the payload
};
static_assert(sizeof(JournalBatchHeader) == 48);

constexpr size_t kBatchAlignment = 64;
constexpr size_t kBatchBytes = kBlockBytes / 2;  // of a batch that holds more than one transaction, with its header
// The largest transaction that a block can hold.
constexpr size_t kLargestTransactionBytes =
    kBlockBytes - sizeof(JournalBlockHeader) - sizeof(JournalBatchHeader) - sizeof(uint32_t);

constexpr size_t batch_bytes(size_t payload_bytes) {
  return round_up(sizeof(JournalBatchHeader) + payload_bytes, kBatchAlignment);
}

// Fills in magic and checksum.
void seal(JournalBlockHeader& header, uint64_t seed);
void seal(JournalBatchHeader& header, std::span<const std::byte> payload, uint64_t seed);

// The header at the start of `block`, if it verifies and belongs to this address.
std::optional<JournalBlockHeader> parse_block_header(std::span<const std::byte> block, uint64_t address, uint64_t seed);
// The batch that begins with `bytes`, if it verifies and belongs to this address.
std::optional<JournalBatchHeader> parse_batch_header(std::span<const std::byte> bytes, uint64_t address, uint64_t seed);
// Calls `apply` with the rows of each transaction. EUCLEAN: the payload is not `transactions` transactions.
Status for_each_transaction(std::span<const std::byte> payload, uint32_t transactions,
                            const std::function<Status(std::span<const std::byte>)>& apply);

}  // namespace brickfs
