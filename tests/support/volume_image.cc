// SPDX-License-Identifier: Apache-2.0
#include "tests/support/volume_image.h"

#include <gtest/gtest.h>
#include <xxhash.h>

#include <algorithm>
#include <cstring>

#include "fs/inode/rows.h"
#include "fs/persistence/superblock.h"
#include "transport/base/check.h"
#include "transport/base/zero.h"

namespace brickfs {
namespace {

constexpr uint64_t kPage = 4096;
constexpr uint64_t kSecondSlot = kBlockBytes / 2;
// docs/format.md, "Superblock"
constexpr uint64_t kUuidAt = 40, kJournalAt = 88, kCheckpointChecksumAt = 128, kRunsAt = 200,
                   kSuperblockChecksumAt = 4088;
constexpr StoredField kSuperblockFields[] = {
    {12, 4, "superblock runs"},       {16, 8, "superblock compat"},           {24, 8, "superblock ro_compat"},
    {32, 8, "superblock incompat"},   {56, 8, "superblock generation"},       {64, 8, "superblock created"},
    {72, 8, "superblock next inode"}, {80, 8, "superblock replay from"},      {88, 8, "superblock journal block"},
    {96, 8, "superblock checkpoint"}, {104, 8, "superblock chunks"},          {112, 8, "superblock rows"},
    {120, 8, "superblock row bytes"}, {136, 8, "superblock label"},           {200, 8, "superblock run start"},
    {208, 8, "superblock run count"}, {2248, 8, "superblock replay through"},
};
constexpr StoredField kChunkFields[] = {
    {8, 8, "chunk checkpoint"}, {16, 8, "chunk sequence"}, {24, 4, "chunk rows"}, {28, 4, "chunk bytes"}};
constexpr StoredField kJournalFields[] = {
    {8, 8, "block address"}, {16, 8, "block next"}, {24, 8, "block first lsn"}, {32, 8, "block durable through"}};
constexpr StoredField kBatchFields[] = {{4, 4, "batch bytes"},
                                        {8, 4, "batch transactions"},
                                        {16, 8, "batch address"},
                                        {24, 8, "batch first lsn"},
                                        {32, 8, "batch durable through"}};
// docs/format.md, "Rows", by kind
const std::vector<StoredField> kRowFields[] = {
    {},
    {{2, 2, "inode target bytes"},
     {4, 4, "inode mode"},
     {8, 8, "inode number"},
     {16, 8, "inode parent"},
     {24, 4, "inode uid"},
     {28, 4, "inode gid"},
     {32, 4, "inode links"},
     {36, 4, "inode device"},
     {40, 8, "inode size"},
     {48, 8, "inode atime"},
     {56, 8, "inode mtime"},
     {64, 8, "inode ctime"},
     {72, 8, "inode btime"}},
    {{1, 1, "entry type"},
     {2, 1, "entry name bytes"},
     {4, 8, "entry directory"},
     {12, 8, "entry inode"},
     {20, 8, "entry cookie"}},
    {{1, 1, "extent unwritten"},
     {4, 8, "extent inode"},
     {12, 8, "extent file unit"},
     {20, 8, "extent count"},
     {28, 8, "extent volume unit"}},
    {{1, 1, "xattr name bytes"}, {4, 4, "xattr value bytes"}, {8, 8, "xattr inode"}},
    {{4, 8, "orphan"}},
    {{4, 8, "erased inode"}},
    {{1, 1, "erased name bytes"}, {4, 8, "erased name's directory"}},
    {{4, 8, "erased extents' inode"}, {12, 8, "erased extents' file unit"}, {20, 8, "erased extents' count"}},
    {{1, 1, "erased xattr's name bytes"}, {4, 8, "erased xattr's inode"}},
    {{4, 8, "erased orphan"}},
};

// Calls visit(page's address, where in it, part of `bytes`) for each page that they, from `address` on, are in.
template <typename Byte, typename Visit>
void for_each_page(uint64_t address, std::span<Byte> bytes, Visit&& visit) {
  while (!bytes.empty()) {
    const uint64_t at = address % kPage;
    const size_t length = std::min<uint64_t>(bytes.size(), kPage - at);
    visit(address - at, at, bytes.first(length));
    bytes = bytes.subspan(length);
    address += length;
  }
}

template <typename Fields>
void add_fields(std::vector<StoredField>& to, uint64_t address, const Fields& fields) {
  for (const StoredField& field : fields) to.push_back({address + field.address, field.bytes, field.name});
}

}  // namespace

VolumeImage VolumeImage::of(VolumeSet& volume) {
  VolumeImage image;
  const auto listed = volume.list();
  EXPECT_TRUE(listed.ok());
  image.blocks_ = *listed;
  std::vector<std::byte> bytes(kBlockBytes);
  for (const BlockRange& range : *listed) {
    for (uint64_t i = 0; i < range.count; ++i) {
      const uint64_t block = raw(block_after(range.start, i));
      const Piece piece{block, {LocalSlice{bytes.data(), static_cast<uint32_t>(bytes.size()), 0}}};
      EXPECT_TRUE(volume.read({&piece, 1}).ok());
      for (uint64_t at = 0; at < kBlockBytes; at += kPage) {
        if (!is_zero(std::span(bytes).subspan(at, kPage))) image.store(block + at, std::span(bytes).subspan(at, kPage));
      }
    }
  }
  return image;
}

Status VolumeImage::write_to(VolumeSet& volume) const {
  for (const BlockRange& range : blocks_) TRY(volume.alloc(range));
  for (const auto& [address, page] : pages_) {
    Page copy = page;
    const Piece piece{address, {LocalSlice{copy.data(), kPage, 0}}};
    TRY(volume.write({&piece, 1}, Stage::kData));
  }
  return volume.commit();
}

void VolumeImage::load(uint64_t address, std::span<std::byte> into) const {
  for_each_page(address, into, [&](uint64_t page_address, size_t at, std::span<std::byte> part) {
    const auto page = pages_.find(page_address);
    if (page == pages_.end())
      std::memset(part.data(), 0, part.size());
    else
      std::memcpy(part.data(), page->second.data() + at, part.size());
  });
}

void VolumeImage::store(uint64_t address, std::span<const std::byte> from) {
  for_each_page(address, from, [&](uint64_t page_address, size_t at, std::span<const std::byte> part) {
    std::memcpy(pages_[page_address].data() + at, part.data(), part.size());
  });
}

uint64_t VolumeImage::get(const StoredField& field) const {
  uint64_t value = 0;
  load(field.address, std::as_writable_bytes(std::span(&value, 1)).first(field.bytes));
  return value;
}

uint64_t VolumeImage::number_at(uint64_t address) const { return get({address, 8, ""}); }
uint64_t VolumeImage::checkpoint_at() const { return number_at(kRunsAt); }
uint64_t VolumeImage::journal_at() const { return number_at(kJournalAt); }

uint64_t VolumeImage::seed() const {
  std::array<std::byte, 16> uuid{};
  load(kUuidAt, uuid);
  return XXH3_64bits(uuid.data(), uuid.size());
}

std::vector<std::byte> VolumeImage::chunk() const {
  std::vector<std::byte> bytes(kChunkBytes);
  load(checkpoint_at(), bytes);
  return bytes;
}

template <typename Visit>
void VolumeImage::for_each_batch(Visit&& visit) const {
  std::vector<std::byte> block(kBlockBytes);
  load(journal_at(), block);
  for (size_t at = sizeof(JournalBlockHeader); at + sizeof(JournalBatchHeader) < kBlockBytes;) {
    const auto batch = parse_batch_header(std::span(block).subspan(at), journal_at() + at, seed());
    if (!batch) return;
    visit(journal_at() + at, *batch,
          std::span<const std::byte>(block).subspan(at + sizeof(*batch), batch->payload_bytes));
    at += batch_bytes(batch->payload_bytes);
  }
}

void VolumeImage::add_rows(std::vector<StoredField>& fields, uint64_t address, std::span<const std::byte> rows) const {
  while (!rows.empty()) {
    const auto length = first_row_bytes(rows);
    CHECK(length.ok());
    add_fields(fields, address, kRowFields[static_cast<size_t>(rows[0])]);
    rows = rows.subspan(*length);
    address += *length;
  }
}

std::vector<StoredField> VolumeImage::fields() const {
  std::vector<StoredField> fields;
  add_fields(fields, 0, kSuperblockFields);
  add_fields(fields, checkpoint_at(), kChunkFields);
  const std::vector<std::byte> first = chunk();
  const auto header = parse_chunk(first, seed());
  CHECK(header.has_value());
  add_rows(fields, checkpoint_at() + sizeof(*header), std::span(first).subspan(sizeof(*header), header->row_bytes));
  add_fields(fields, journal_at(), kJournalFields);
  for_each_batch([&](uint64_t at, const JournalBatchHeader& batch, std::span<const std::byte> payload) {
    add_fields(fields, at, kBatchFields);
    uint64_t address = at + sizeof(batch);
    CHECK(for_each_transaction(payload, batch.transactions, [&](std::span<const std::byte> rows) -> Status {
            fields.push_back({address, 4, "transaction bytes"});
            add_rows(fields, address + sizeof(uint32_t), rows);
            address += sizeof(uint32_t) + rows.size();
            return {};
          }).ok());
  });
  return fields;
}

void VolumeImage::set(const StoredField& field, uint64_t value) {
  const uint64_t journal = journal_at();
  const uint64_t checkpoint = checkpoint_at();
  struct Batch {
    uint64_t at;
    JournalBatchHeader header;
  };
  std::optional<Batch> batch;  // that it is in
  for_each_batch([&](uint64_t at, const JournalBatchHeader& header, std::span<const std::byte>) {
    if (field.address >= at && field.address < at + batch_bytes(header.payload_bytes)) batch = Batch{at, header};
  });
  store(field.address, bytes_of(value).first(field.bytes));
  if (batch) {
    std::vector<std::byte> payload(batch->header.payload_bytes);
    load(batch->at + sizeof(JournalBatchHeader), payload);
    JournalBatchHeader header;
    load(batch->at, std::as_writable_bytes(std::span(&header, 1)));
    const uint32_t said = header.payload_bytes;
    if (said < payload.size()) payload.resize(said);
    seal(header, payload, seed());
    header.payload_bytes = said;
    store(batch->at, bytes_of(header));
  } else if (field.address >= journal && field.address < journal + sizeof(JournalBlockHeader)) {
    JournalBlockHeader header;
    load(journal, std::as_writable_bytes(std::span(&header, 1)));
    seal(header, seed());
    store(journal, bytes_of(header));
  } else if (field.address >= checkpoint && field.address < checkpoint + kChunkBytes) {
    std::vector<std::byte> bytes = chunk();
    auto header = brickfs::load<ChunkHeader>(bytes);
    if (header.row_bytes > kChunkRowBytes) return;  // cannot verify
    seal(header, std::span(bytes).subspan(sizeof(header), header.row_bytes), seed());
    store(checkpoint, bytes_of(header));
    const uint64_t whole = add_chunk(0, header.checksum);
    store(kCheckpointChecksumAt, bytes_of(whole));
  }
  seal_superblock();
}

void VolumeImage::seal_superblock() {
  std::array<std::byte, kPage> slot{};
  load(0, slot);
  const uint64_t checksum = XXH3_64bits(slot.data(), kSuperblockChecksumAt);
  std::memcpy(slot.data() + kSuperblockChecksumAt, &checksum, sizeof(checksum));
  store(0, slot);
  store(kSecondSlot, slot);
}

}  // namespace brickfs
