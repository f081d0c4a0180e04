// SPDX-License-Identifier: Apache-2.0
#include "fs/persistence/journal_format.h"

#include <xxhash.h>

#include "transport/base/bytes.h"
#include "transport/brick/limits.h"

namespace brickfs {
namespace {

uint64_t checksum_of(const JournalBlockHeader& header, uint64_t seed) {
  return XXH3_64bits_withSeed(&header, offsetof(JournalBlockHeader, checksum), seed);
}

// The payload's checksum seeds the header's, so that one value covers both, wherever each of them is in memory.
uint64_t checksum_of(const JournalBatchHeader& header, std::span<const std::byte> payload, uint64_t seed) {
  const uint64_t of_payload = XXH3_64bits_withSeed(payload.data(), payload.size(), seed);
  return XXH3_64bits_withSeed(&header, offsetof(JournalBatchHeader, checksum), of_payload);
}

// What was durable before comes before. So many transactions as a block holds can follow the first.
bool are_numbers(uint64_t first_lsn, uint64_t durable_through) {
  return first_lsn >= 1 && first_lsn <= limits::kLsn - kBlockBytes && durable_through < first_lsn;
}

constexpr Error kBadPayload{EUCLEAN, "journal batch is not made of transactions"};

}  // namespace

void seal(JournalBlockHeader& header, uint64_t seed) {
  header.magic = JournalBlockHeader::kMagic;
  header.checksum = checksum_of(header, seed);
}

void seal(JournalBatchHeader& header, std::span<const std::byte> payload, uint64_t seed) {
  header.magic = JournalBatchHeader::kMagic;
  header.payload_bytes = static_cast<uint32_t>(payload.size());
  header.checksum = checksum_of(header, payload, seed);
}

std::optional<JournalBlockHeader> parse_block_header(std::span<const std::byte> block, uint64_t address,
                                                     uint64_t seed) {
  if (block.size() < sizeof(JournalBlockHeader)) return std::nullopt;
  const auto header = load<JournalBlockHeader>(block);
  if (header.magic != JournalBlockHeader::kMagic || header.address != address) return std::nullopt;
  if (!are_numbers(header.first_lsn, header.durable_through)) return std::nullopt;
  if (header.checksum != checksum_of(header, seed)) return std::nullopt;
  return header;
}

std::optional<JournalBatchHeader> parse_batch_header(std::span<const std::byte> bytes, uint64_t address,
                                                     uint64_t seed) {
  if (bytes.size() < sizeof(JournalBatchHeader)) return std::nullopt;
  const auto header = load<JournalBatchHeader>(bytes);
  if (header.magic != JournalBatchHeader::kMagic || header.address != address) return std::nullopt;
  if (!are_numbers(header.first_lsn, header.durable_through)) return std::nullopt;
  if (header.transactions == 0 || header.payload_bytes > bytes.size() - sizeof(header)) return std::nullopt;
  const auto payload = bytes.subspan(sizeof(header), header.payload_bytes);
  if (header.checksum != checksum_of(header, payload, seed)) return std::nullopt;
  return header;
}

Status for_each_transaction(std::span<const std::byte> payload, uint32_t transactions,
                            const std::function<Status(std::span<const std::byte>)>& apply) {
  for (; transactions > 0; --transactions) {
    if (payload.size() < sizeof(uint32_t)) return kBadPayload;
    const auto bytes = load<uint32_t>(payload);
    payload = payload.subspan(sizeof(uint32_t));
    if (bytes == 0 || bytes > payload.size()) return kBadPayload;
    TRY(apply(payload.first(bytes)));
    payload = payload.subspan(bytes);
  }
  if (!payload.empty()) return kBadPayload;
  return {};
}

}  // namespace brickfs
