// SPDX-License-Identifier: Apache-2.0
#include "fs/persistence/superblock.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/support/model_brick.h"

namespace brickfs {
namespace {

constexpr uint64_t kSecondSlot = 1 * kMiB;
constexpr size_t kSectorBytes = 4096;

struct SuperblockBed {
  SuperblockBed() : medium(std::make_shared<ModelMedium>(Durability::kDurable, 16)), volume(open_model_volume(medium)) {
    EXPECT_TRUE(volume->alloc(kSuperblockBlock).ok());
    EXPECT_TRUE(volume->commit().ok());
    superblock = new_superblock("a label");
    superblock.journal_block = BlockAddress{kBlockBytes};
  }
  SuperblockRead read() {
    auto found = SuperblockSlots(*volume).read();
    EXPECT_TRUE(found.ok());
    return *found;
  }
  Status write() {
    SuperblockSlots slots(*volume);
    TRY(slots.read());
    return slots.write(superblock);
  }

  std::shared_ptr<ModelMedium> medium;
  std::unique_ptr<VolumeSet> volume;
  Superblock superblock;
};

using Kind = SuperblockRead::Kind;

TEST(Superblock, ComesBackAsWritten) {
  SuperblockBed bed;
  bed.superblock.next_ino = Ino{77};
  bed.superblock.replay_from = Lsn{123};
  bed.superblock.checkpoint = {.runs = {}, .id = 9, .chunks = 10, .rows = 11, .row_bytes = 12, .checksum = 13};
  for (uint64_t i = 0; i < kCheckpointRuns; ++i)
    bed.superblock.checkpoint.runs.push_back({BlockAddress{(i + 1) * 200 * kBlockBytes}, i + 1});
  ASSERT_TRUE(bed.write().ok());
  const SuperblockRead read = bed.read();
  ASSERT_EQ(read.kind, Kind::kValid);
  EXPECT_FALSE(read.copy_damaged);
  EXPECT_FALSE(read.read_only);
  EXPECT_EQ(read.superblock.uuid, bed.superblock.uuid);
  EXPECT_EQ(read.superblock.seed(), bed.superblock.seed());
  EXPECT_EQ(read.superblock.uuid_text(), bed.superblock.uuid_text());
  EXPECT_EQ(read.superblock.uuid_text().size(), 36u);
  EXPECT_EQ(read.superblock.label, "a label");
  EXPECT_EQ(read.superblock.created, bed.superblock.created);
  EXPECT_EQ(read.superblock.generation, 1u);
  EXPECT_EQ(read.superblock.next_ino, Ino{77});
  EXPECT_EQ(read.superblock.replay_from, Lsn{123});
  EXPECT_EQ(read.superblock.journal_block, BlockAddress{kBlockBytes});
  EXPECT_EQ(read.superblock.checkpoint.runs, bed.superblock.checkpoint.runs);
  EXPECT_EQ(read.superblock.checkpoint.id, 9u);
  EXPECT_EQ(read.superblock.checkpoint.chunks, 10u);
  EXPECT_EQ(read.superblock.checkpoint.rows, 11u);
  EXPECT_EQ(read.superblock.checkpoint.row_bytes, 12u);
  EXPECT_EQ(read.superblock.checkpoint.checksum, 13u);
}

TEST(Superblock, TellsApartWhatIsNotOne) {
  SuperblockBed bed;
  EXPECT_EQ(bed.read().kind, Kind::kEmpty);
  const std::vector<std::byte> foreign(100, std::byte{'x'});
  bed.medium->overwrite(kSecondSlot, foreign);
  EXPECT_EQ(bed.read().kind, Kind::kForeign);
  ASSERT_TRUE(bed.write().ok());
  EXPECT_EQ(bed.read().kind, Kind::kValid);
  bed.medium->flip_bit(100, 1);
  EXPECT_TRUE(bed.read().copy_damaged);
  bed.medium->flip_bit(kSecondSlot + 200, 1);
  EXPECT_EQ(bed.read().kind, Kind::kDamaged);
  EXPECT_NE(bed.read().why, "");
}

TEST(Superblock, AnyDamageToOneCopyIsSurvived) {
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  SuperblockBed bed;
  ASSERT_TRUE(bed.write().ok());
  for (int round = 0; round < 500; ++round) {
    const uint64_t address = random() % 2 * kSecondSlot + random() % kSectorBytes;
    const unsigned bit = random() % 8;
    bed.medium->flip_bit(address, bit);
    const SuperblockRead read = bed.read();
    EXPECT_EQ(read.kind, Kind::kValid);
    EXPECT_TRUE(read.copy_damaged);
    EXPECT_EQ(read.superblock.uuid, bed.superblock.uuid);
    bed.medium->flip_bit(address, bit);
  }
}

TEST(Superblock, FeaturesSayWhatMayBeDone) {
  SuperblockBed bed;
  bed.superblock.features.compat = 1;
  ASSERT_TRUE(bed.write().ok());
  EXPECT_FALSE(bed.read().read_only);
  bed.superblock.features.ro_compat = 1;
  ASSERT_TRUE(bed.write().ok());
  EXPECT_EQ(bed.read().kind, Kind::kValid);
  EXPECT_TRUE(bed.read().read_only);
  bed.superblock.features.incompat = 4;
  ASSERT_TRUE(bed.write().ok());
  EXPECT_EQ(bed.read().kind, Kind::kNewer);
  bed.superblock.features = {};
  bed.superblock.version = kFormatVersion + 1;
  ASSERT_TRUE(bed.write().ok());
  EXPECT_EQ(bed.read().kind, Kind::kNewer);
}

// Cut off anywhere, with or without a crash of the brick: the former or the new one is there.
TEST(Superblock, AWriteIsAllOrNothing) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SuperblockBed bed;
    ASSERT_TRUE(bed.write().ok());
    bed.superblock.replay_from = Lsn{100};
    bed.medium->stop_client_at(1 + seed % 5, seed);
    const bool written = bed.write().ok();
    bed.volume.reset();
    if (seed % 2 == 0) bed.medium->crash_brick(seed);
    bed.volume = open_model_volume(bed.medium);
    const SuperblockRead read = bed.read();
    ASSERT_EQ(read.kind, Kind::kValid) << seed;
    EXPECT_TRUE(read.superblock.replay_from == Lsn{100} || (!written && read.superblock.replay_from == Lsn{1})) << seed;
    // And the next one comes out whole.
    bed.superblock.replay_from = Lsn{200};
    ASSERT_TRUE(bed.write().ok());
    EXPECT_EQ(bed.read().superblock.replay_from, Lsn{200});
    EXPECT_GT(bed.read().superblock.generation, read.superblock.generation);
    EXPECT_FALSE(bed.read().copy_damaged);
  }
}

// Some words of `from` have landed in `into`.
void land_words(std::vector<std::byte>& into, std::span<const std::byte> from, std::mt19937_64& random) {
  const uint64_t share = 1 + random() % 64;
  for (size_t at = 0; at < into.size(); at += sizeof(uint64_t)) {
    if (random() % 64 < share) std::copy_n(&from[at], sizeof(uint64_t), &into[at]);
  }
}

// One write is cut off; who comes next writes another superblock of the same generation, and is cut off as well. Most
// words are the same in both: without restore_copy() the two would make the first one whole.
TEST(Superblock, TwoTornWritesMakeNoWholeOne) {
  SuperblockBed bed;
  ASSERT_TRUE(bed.write().ok());
  const std::vector<std::byte> sound = bed.medium->read(0, kSectorBytes);
  std::vector<std::byte> attempts[2];
  for (const uint64_t attempt : {0, 1}) {
    bed.superblock.journal_block = BlockAddress{(2 + attempt) * kBlockBytes};
    ASSERT_TRUE(bed.write().ok());
    attempts[attempt] = bed.medium->read(0, kSectorBytes);
    bed.medium->overwrite(0, sound);
    bed.medium->overwrite(kSecondSlot, sound);
  }
  int made_whole = 0;
  for (const bool restores : {false, true}) {
    for (uint64_t seed = 0; seed < 2000; ++seed) {
      std::mt19937_64 random(seed);
      std::vector<std::byte> slot = sound;
      land_words(slot, attempts[0], random);
      bed.medium->overwrite(0, slot);
      SuperblockSlots slots(*bed.volume);
      const auto found = slots.read();
      ASSERT_TRUE(found.ok());
      if (found->superblock.generation != 1) continue;  // all that differs has landed
      if (restores) {
        ASSERT_TRUE(slots.restore_copy(*found).ok());
        EXPECT_FALSE(bed.read().copy_differs);
      }
      slot = bed.medium->read(0, kSectorBytes);
      land_words(slot, attempts[1], random);
      bed.medium->overwrite(0, slot);
      const bool is_whole = bed.read().superblock.journal_block == BlockAddress{2 * kBlockBytes};
      ASSERT_FALSE(restores && is_whole) << seed;
      made_whole += is_whole ? 1 : 0;
    }
  }
  EXPECT_GT(made_whole, 0);
}

}  // namespace
}  // namespace brickfs
