// SPDX-License-Identifier: Apache-2.0
#include "fs/persistence/checkpoint.h"

#include <gtest/gtest.h>

#include <random>

#include "fs/persistence/checkpoint_format.h"
#include "tests/support/journal_bed.h"

namespace brickfs {
namespace {

// `count` orphan rows, and an xattr of `bytes` with each.
class Numbers final : public RowSource {
 public:
  Numbers(uint64_t count, size_t bytes) : count_(count), value_(bytes) {}
  bool next(Transaction& out, size_t bytes) override {
    const size_t before = out.bytes().size();
    for (; done_ < count_ && out.bytes().size() - before < bytes; ++done_) {
      out.put_orphan(Ino{done_ + 1});
      out.put(XattrRow{Ino{done_ + 1}, "user.x", value_});
    }
    return done_ < count_;
  }

 private:
  const uint64_t count_;
  const std::vector<std::byte> value_;
  uint64_t done_ = 0;
};

Result<CheckpointPlace> write_numbers(JournalBed& bed, uint64_t count, size_t bytes, uint64_t expected_blocks = 0) {
  CheckpointWriter writer(*bed.volume, *bed.space, JournalBed::kSeed, 5, expected_blocks);
  Numbers numbers(count, bytes);
  TRY(writer.add_all(numbers));
  return writer.finish();
}

Status read_numbers(JournalBed& bed, const CheckpointPlace& place, std::vector<uint64_t>& numbers, std::string& why) {
  RowText text;
  const std::vector<BlockRange> allocated = TRY(bed.volume->list());
  TRY(read_checkpoint(*bed.volume, place, JournalBed::kSeed, allocated, text, {},
                      [&why](std::string damage) { why = std::move(damage); }));
  numbers = JournalBed::numbers(text);
  return why.empty() ? Status() : Error(EUCLEAN, "damaged");
}

TEST(Checkpoint, ComesBackWhole) {
  JournalBed bed(Durability::kVolatile, 256);
  ASSERT_TRUE(bed.start().ok());
  for (const uint64_t expected_blocks : {0, 3, 40}) {
    for (const uint64_t count : {1u, 1000u, 20'000u}) {
      const auto place = write_numbers(bed, count, 700, expected_blocks);
      ASSERT_TRUE(place.ok());
      EXPECT_EQ(place->rows, 2 * count);
      EXPECT_EQ(place->blocks(), divide_up(place->chunks, kChunksPerBlock));
      EXPECT_LE(place->chunks, 1 + place->row_bytes / (kChunkRowBytes - 800));
      std::vector<uint64_t> numbers;
      std::string why;
      ASSERT_TRUE(read_numbers(bed, *place, numbers, why).ok()) << why;
      EXPECT_EQ(numbers, JournalBed::up_to(count));
      for (const BlockRange& run : place->runs) ASSERT_TRUE(bed.space->free_metadata(run).ok());
    }
  }
}

TEST(Checkpoint, OfNothingIsNothing) {
  JournalBed bed;
  ASSERT_TRUE(bed.start().ok());
  const auto place = write_numbers(bed, 0, 0);
  ASSERT_TRUE(place.ok());
  EXPECT_EQ(place->blocks(), 0u);
  std::vector<uint64_t> numbers;
  std::string why;
  EXPECT_TRUE(read_numbers(bed, *place, numbers, why).ok());
  EXPECT_TRUE(numbers.empty());
}

TEST(Checkpoint, EveryFlippedBitIsFound) {
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  JournalBed bed(Durability::kVolatile, 64);
  ASSERT_TRUE(bed.start().ok());
  const auto place = write_numbers(bed, 500, 60'000);
  ASSERT_TRUE(place.ok());
  for (int round = 0; round < 40; ++round) {
    const uint64_t chunk = random() % place->chunks;
    const uint64_t address = raw(block_at(*place, chunk / kChunksPerBlock)) + chunk % kChunksPerBlock * kChunkBytes;
    const auto header = parse_chunk(bed.medium->read(address, kChunkBytes), JournalBed::kSeed);
    ASSERT_TRUE(header.has_value());
    const uint64_t at = address + random() % (sizeof(ChunkHeader) + header->row_bytes);
    const unsigned bit = random() % 8;
    bed.medium->flip_bit(at, bit);
    std::vector<uint64_t> numbers;
    std::string why;
    EXPECT_EQ(read_numbers(bed, *place, numbers, why).code(), EUCLEAN);
    EXPECT_NE(why, "");
    bed.medium->flip_bit(at, bit);
  }
}

TEST(Checkpoint, RowsOfOtherChunksAreReadAllTheSame) {
  JournalBed bed(Durability::kVolatile, 64);
  ASSERT_TRUE(bed.start().ok());
  const auto place = write_numbers(bed, 500, 60'000);
  ASSERT_TRUE(place.ok());
  ASSERT_GT(place->blocks(), 3u);
  bed.medium->flip_bit(raw(block_at(*place, 1)) + 1000, 3);
  std::vector<uint64_t> numbers;
  std::string why;
  EXPECT_EQ(read_numbers(bed, *place, numbers, why).code(), EUCLEAN);
  EXPECT_GT(numbers.size(), 490u);
  EXPECT_LT(numbers.size(), 500u);
  ASSERT_TRUE(bed.volume->free({block_at(*place, 1), 1}).ok());
  EXPECT_EQ(read_numbers(bed, *place, numbers, why).code(), EUCLEAN);
  EXPECT_GT(numbers.size(), 400u);
  EXPECT_LT(numbers.size(), 490u);
}

TEST(Checkpoint, ChunksOfAnotherCheckpointAreNotTaken) {
  JournalBed bed(Durability::kVolatile, 64);
  ASSERT_TRUE(bed.start().ok());
  const auto place = write_numbers(bed, 500, 10'000);
  ASSERT_TRUE(place.ok());
  std::vector<uint64_t> numbers;
  std::string why;
  CheckpointPlace wrong = *place;
  wrong.id += 1;
  EXPECT_EQ(read_numbers(bed, wrong, numbers, why).code(), EUCLEAN);
  why.clear();
  wrong = *place;
  wrong.checksum += 1;
  EXPECT_EQ(read_numbers(bed, wrong, numbers, why).code(), EUCLEAN);
  why.clear();
  wrong = *place;
  wrong.chunks += kChunksPerBlock;
  EXPECT_EQ(read_numbers(bed, wrong, numbers, why).code(), EUCLEAN);
  why.clear();
  wrong = *place;
  wrong.chunks -= 1;
  EXPECT_EQ(read_numbers(bed, wrong, numbers, why).code(), EUCLEAN);
  why.clear();
  // Two chunks in each other's place.
  const uint64_t first = raw(block_at(*place, 0));
  const auto one = bed.medium->read(first, kChunkBytes);
  const auto other = bed.medium->read(first + kChunkBytes, kChunkBytes);
  bed.medium->overwrite(first, other);
  bed.medium->overwrite(first + kChunkBytes, one);
  EXPECT_EQ(read_numbers(bed, *place, numbers, why).code(), EUCLEAN);
}

TEST(Checkpoint, WithoutSpaceGivesEverythingBack) {
  JournalBed bed(Durability::kVolatile, 64);
  ASSERT_TRUE(bed.start().ok());
  ASSERT_TRUE(bed.space->trim().ok());
  const uint64_t before = bed.medium->blocks();
  bed.medium->set_capacity(before + 4);
  EXPECT_EQ(write_numbers(bed, 3000, 60'000).code(), ENOSPC);
  ASSERT_TRUE(bed.space->trim().ok());
  EXPECT_EQ(bed.medium->blocks(), before);
}

}  // namespace
}  // namespace brickfs
