// SPDX-License-Identifier: Apache-2.0
// What recovery makes of journals that crashes and damage leave behind: docs/recovery.md, "Decision table".
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "fs/persistence/journal_format.h"
#include "fs/persistence/journal_reader.h"
#include "tests/support/journal_bed.h"

namespace brickfs {
namespace {

struct BatchPlace {
  uint64_t address;
  size_t bytes;
  Lsn first;
  Lsn durable_through;
};

// All batches in a block, which must be sound.
std::vector<BatchPlace> batches_in(const JournalBed& bed, BlockAddress block) {
  const std::vector<std::byte> bytes = bed.medium->read(raw(block), kBlockBytes);
  std::vector<BatchPlace> places;
  size_t at = sizeof(JournalBlockHeader);
  while (const auto batch = parse_batch_header(std::span(bytes).subspan(at), raw(block) + at, JournalBed::kSeed)) {
    places.push_back(
        {raw(block) + at, batch_bytes(batch->payload_bytes), Lsn{batch->first_lsn}, Lsn{batch->durable_through}});
    at += places.back().bytes;
  }
  return places;
}

// `batches` synced batches of two transactions each.
void fill(JournalBed& bed, uint64_t batches, size_t transaction_bytes) {
  ASSERT_TRUE(bed.start().ok());
  for (uint64_t i = 0; i < batches; ++i) {
    bed.append(2 * i + 1, transaction_bytes);
    bed.append(2 * i + 2, transaction_bytes);
    ASSERT_TRUE(bed.journal->sync().ok());
  }
  ASSERT_EQ(bed.read_again(), JournalBed::up_to(2 * batches));
}

TEST(JournalRecovery, ATornTailOfAnyLengthIsIgnored) {
  JournalBed bed(Durability::kVolatile);
  fill(bed, 3, 100);
  const auto batches = batches_in(bed, bed.end.chain.front());
  const BatchPlace torn = batches.back();
  const uint64_t before = raw(torn.first) - 1;
  const std::vector<std::byte> whole = bed.medium->read(torn.address, torn.bytes);
  size_t needed = torn.bytes;  // the padding is not
  while (whole[needed - 1] == std::byte{0}) --needed;
  for (const bool prefix : {true, false}) {
    for (size_t cut = 0; cut <= torn.bytes; cut += 8) {
      std::vector<std::byte> landed(torn.bytes);
      if (prefix) std::copy_n(whole.begin(), cut, landed.begin());
      if (!prefix)
        std::copy(whole.begin() + static_cast<ptrdiff_t>(cut), whole.end(),
                  landed.begin() + static_cast<ptrdiff_t>(cut));
      bed.medium->overwrite(torn.address, landed);
      const bool is_whole = landed == whole;
      ASSERT_EQ(bed.read_again(), JournalBed::up_to(is_whole ? 6 : before)) << (prefix ? "prefix " : "suffix ") << cut;
      ASSERT_EQ(bed.end.damage, "");
    }
  }
  // And the journal goes on behind it.
  bed.medium->overwrite(torn.address, std::span(whole).first(whole.size() / 2));
  bed.medium->flip_bit(torn.address, 0);
  ASSERT_EQ(bed.read_again(), JournalBed::up_to(before));
  ASSERT_TRUE(bed.start().ok());
  for (uint64_t i = before + 1; i <= 20; ++i) bed.append(i);
  ASSERT_TRUE(bed.journal->sync().ok());
  EXPECT_EQ(bed.read_again(), JournalBed::up_to(20));
  EXPECT_EQ(bed.end.damage, "");
}

TEST(JournalRecovery, ABadBatchBeforeGoodOnesIsDamage) {
  JournalBed bed;
  fill(bed, 4, 100);
  const auto batches = batches_in(bed, bed.end.chain.front());
  ASSERT_GE(batches.size(), 4u);
  for (size_t i = 0; i < batches.size(); ++i) {
    const bool known_durable = raw(batches.back().durable_through) >= raw(batches[i].first);
    EXPECT_TRUE(known_durable || i + 2 >= batches.size());  // of the last pair nobody can know
    for (size_t at = 0; at < sizeof(JournalBatchHeader) + 100; at += 5) {
      bed.medium->flip_bit(batches[i].address + at, at % 8);
      ASSERT_EQ(bed.read_again(), JournalBed::up_to(raw(batches[i].first) - 1)) << i << " " << at;
      EXPECT_EQ(bed.end.damage.empty(), !known_durable);
      EXPECT_EQ(bed.end.next, batches[i].first);
      bed.medium->flip_bit(batches[i].address + at, at % 8);
    }
  }
  EXPECT_EQ(bed.read_again(), JournalBed::up_to(8));
  EXPECT_EQ(bed.end.damage, "");
}

TEST(JournalRecovery, DamageAtTheSeamOfBlocksIsFound) {
  JournalBed bed;
  fill(bed, 12, 200'000);
  ASSERT_GE(bed.end.chain.size(), 3u);
  const std::vector<BlockAddress> chain = bed.end.chain;
  const auto first = batches_in(bed, chain[0]);
  // The last batch of a block, the header of the next one, that one's first batch.
  for (const uint64_t address :
       {first.back().address + 100, raw(chain[1]) + 20, raw(chain[1]) + sizeof(JournalBlockHeader) + 9}) {
    bed.medium->flip_bit(address, 3);
    const auto found = bed.read_again();
    EXPECT_EQ(found, JournalBed::up_to(found.size()));
    EXPECT_LT(found.size(), 24u);
    EXPECT_NE(bed.end.damage, "") << std::hex << address;
    bed.medium->flip_bit(address, 3);
  }
  EXPECT_EQ(bed.read_again(), JournalBed::up_to(24));
  EXPECT_EQ(bed.end.damage, "");
}

TEST(JournalRecovery, AMissingBlockIsDamage) {
  JournalBed bed;
  fill(bed, 12, 200'000);
  ASSERT_GE(bed.end.chain.size(), 3u);
  const std::vector<BlockAddress> lost = {bed.end.fresh, bed.end.chain[1], bed.end.chain[0]};
  for (const BlockAddress block : lost) {
    ASSERT_TRUE(bed.volume->free({block, 1}).ok());
    const auto found = bed.read_again();
    EXPECT_EQ(found, JournalBed::up_to(found.size()));
    EXPECT_NE(bed.end.damage, "");
  }
}

TEST(JournalRecovery, BytesOfAnotherVolumeAreNotTaken) {
  JournalBed bed;
  fill(bed, 2, 0);
  RowText text;
  const auto end =
      read_journal(*bed.volume, JournalBed::kSeed + 1, Lsn{1}, JournalBed::kFirstBlock, *bed.volume->list(), text);
  ASSERT_TRUE(end.ok());
  EXPECT_TRUE(text.lines.empty());
  EXPECT_EQ(end->fresh, JournalBed::kFirstBlock);
}

TEST(JournalRecovery, AnyFlippedBitIsSeenOrCostsTheTailOnly) {
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  JournalBed bed;
  fill(bed, 6, 2'000);
  const auto batches = batches_in(bed, bed.end.chain.front());
  const uint64_t used = batches.back().address + batches.back().bytes - raw(bed.end.chain.front());
  // What no later batch knows to have been durable.
  const auto tail = std::find_if(batches.begin(), batches.end(), [&](const BatchPlace& batch) {
    return raw(batch.first) > raw(batches.back().durable_through);
  });
  for (int round = 0; round < 300; ++round) {
    const uint64_t address =
        raw(bed.end.chain.empty() ? JournalBed::kFirstBlock : bed.end.chain.front()) + random() % used;
    const unsigned bit = random() % 8;
    bed.medium->flip_bit(address, bit);
    const auto found = bed.read_again();
    EXPECT_EQ(found, JournalBed::up_to(found.size()));
    const bool in_last = address >= tail->address;
    EXPECT_TRUE(in_last || found.size() == 12 || !bed.end.damage.empty()) << address << "/" << bit;
    EXPECT_TRUE(!in_last || found.size() + 1 >= raw(tail->first)) << address << "/" << bit;
    bed.medium->flip_bit(address, bit);
  }
}

// Threads append and sync; the client dies in the middle of some operation, at times the brick with it. What comes back
// is what was appended, in order, up to some point not before the last sync. Then the next client goes on.
void crash_again_and_again(Durability durability, uint64_t seed) {
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  JournalBed bed(durability);
  std::vector<uint64_t> expected;  // what must come back, all of it
  uint64_t number = 0;
  for (int crash = 0; crash < 8; ++crash) {
    const bool stops_in_start = random() % 4 == 0;
    if (stops_in_start) bed.medium->stop_client_at(1 + random() % 6, random());
    std::vector<uint64_t> appended = expected;
    std::atomic<uint64_t> synced{expected.size()};
    if (bed.start().ok()) {
      if (!stops_in_start) bed.medium->stop_client_at(1 + random() % 30, random());
      std::mutex mutex;
      std::vector<std::thread> threads;
      for (int t = 0; t < 3; ++t) {
        threads.emplace_back([&, own = std::mt19937_64(random())]() mutable {
          while (!bed.medium->client_stopped()) {
            uint64_t mine = 0;
            {
              const std::lock_guard lock(mutex);
              bed.append(++number, own() % 20 == 0 ? 200'000 : own() % 1'000);
              appended.push_back(number);
              mine = appended.size();
            }
            if (own() % 5 != 0 || !bed.journal->sync().ok()) continue;
            uint64_t before = synced;
            while (before < mine && !synced.compare_exchange_weak(before, mine)) {
            }
          }
        });
      }
      for (std::thread& thread : threads) thread.join();
    }
    bed.abandon();
    if (durability == Durability::kDurable && random() % 2 == 0) bed.medium->crash_brick(random());
    bed.open();
    RowText text;
    bed.read(text);
    ASSERT_EQ(bed.end.damage, "") << "crash " << crash;
    const std::vector<uint64_t> found = JournalBed::numbers(text);
    ASSERT_GE(found.size(), synced) << "crash " << crash;
    ASSERT_LE(found.size(), appended.size());
    appended.resize(found.size());
    ASSERT_EQ(found, appended) << "crash " << crash;
    // What was read is served: settled, as a mount settles suspect blocks.
    std::vector<BlockRange> chain;
    for (const BlockAddress block : bed.end.chain) chain.push_back({block, 1});
    chain.push_back({bed.end.fresh, 1});
    ASSERT_TRUE(bed.volume->settle({}, chain, {}).ok());
    expected = found;
  }
}

TEST(JournalRecovery, EveryCrashLeavesAPrefix) {
  const uint64_t seed = std::random_device{}();
  for (uint64_t round = 0; round < 12; ++round) {
    crash_again_and_again(round % 3 == 0 ? Durability::kVolatile : Durability::kDurable, seed + round);
    if (::testing::Test::HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace brickfs
