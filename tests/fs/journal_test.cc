// SPDX-License-Identifier: Apache-2.0
#include "fs/persistence/journal.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <random>
#include <thread>
#include <vector>

#include "fs/persistence/journal_format.h"
#include "tests/support/journal_bed.h"
#include "transport/brick/limits.h"

namespace brickfs {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

template <typename Condition>
bool comes_true(Condition condition, milliseconds within = milliseconds(5'000)) {
  const auto deadline = Clock::now() + within;
  while (Clock::now() < deadline) {
    if (condition()) return true;
    std::this_thread::sleep_for(milliseconds(1));
  }
  return condition();
}

TEST(Journal, ComesBackInOrder) {
  for (const Durability durability : {Durability::kDurable, Durability::kVolatile}) {
    JournalBed bed(durability);
    ASSERT_TRUE(bed.start().ok());
    for (uint64_t i = 1; i <= 1000; ++i) EXPECT_EQ(bed.append(i), Lsn{i});
    ASSERT_TRUE(bed.journal->sync().ok());
    EXPECT_EQ(bed.journal->durable(), Lsn{1000});
    EXPECT_EQ(bed.read_again(), JournalBed::up_to(1000));
    EXPECT_EQ(bed.end.next, Lsn{1001});
    EXPECT_EQ(bed.end.transactions, 1000u);
    EXPECT_EQ(bed.end.damage, "");
  }
}

TEST(Journal, AnEmptyOneHasNothing) {
  JournalBed bed;
  EXPECT_TRUE(bed.read_again().empty());
  EXPECT_EQ(bed.end.next, Lsn{1});
  EXPECT_EQ(bed.end.fresh, JournalBed::kFirstBlock);
  EXPECT_FALSE(bed.end.fresh_dirty);
  EXPECT_EQ(bed.end.damage, "");
}

TEST(Journal, GoesOnOverBlocksAndMounts) {
  JournalBed bed;
  uint64_t last = 0;
  for (int mount = 0; mount < 4; ++mount) {
    ASSERT_TRUE(bed.start().ok());
    for (int i = 0; i < 100; ++i) bed.append(++last, 30'000);
    ASSERT_TRUE(bed.journal->sync().ok());
    ASSERT_EQ(bed.read_again(), JournalBed::up_to(last)) << mount;
    ASSERT_EQ(bed.end.damage, "");
  }
  EXPECT_GE(bed.end.chain.size(), 7u);
}

TEST(Journal, TransactionsOfAnySizeFit) {
  JournalBed bed;
  ASSERT_TRUE(bed.start().ok());
  uint64_t last = 0;
  for (const size_t bytes :
       {limits::kTransactionBytes - 61'000, size_t{100}, kLargestTransactionBytes - 61'000, size_t{1'000'000},
        size_t{0}, kLargestTransactionBytes - 61'000, limits::kTransactionBytes - 61'000}) {
    bed.append(++last, bytes);
    if (last % 3 == 0) {
      ASSERT_TRUE(bed.journal->sync().ok());
    }
  }
  ASSERT_TRUE(bed.journal->sync().ok());
  EXPECT_EQ(bed.read_again(), JournalBed::up_to(last));
}

TEST(Journal, StartsBehindNothingButZeros) {
  JournalBed bed;
  ASSERT_TRUE(bed.start().ok());
  bed.append(1);
  ASSERT_TRUE(bed.journal->sync().ok());
  ASSERT_EQ(bed.read_again().size(), 1u);
  // The remains of a torn first batch.
  const BlockAddress fresh = bed.end.fresh;
  const std::vector<std::byte> remains(5000, std::byte{0xab});
  bed.medium->overwrite(raw(fresh) + 7777, remains);
  ASSERT_EQ(bed.read_again().size(), 1u);
  EXPECT_TRUE(bed.end.fresh_dirty);
  EXPECT_EQ(bed.end.fresh, fresh);
  EXPECT_EQ(bed.end.damage, "");
  ASSERT_TRUE(bed.start().ok());
  EXPECT_EQ(bed.medium->read(raw(fresh), kBlockBytes), std::vector<std::byte>(kBlockBytes));
  bed.append(2);
  ASSERT_TRUE(bed.journal->sync().ok());
  EXPECT_EQ(bed.read_again(), JournalBed::up_to(2));
}

TEST(Journal, ManyThreadsShareCommitsInOrder) {
  JournalBed bed;
  std::atomic<uint64_t> hooked{0};
  ASSERT_TRUE(bed.start({.on_durable = [&](Lsn lsn) { hooked = raw(lsn); }, .on_block_added = nullptr}).ok());
  constexpr uint64_t kThreads = 8;
  constexpr uint64_t kEach = 200;
  std::vector<std::thread> threads;
  std::atomic<bool> in_order{true};
  for (uint64_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      Lsn before{};
      for (uint64_t i = 0; i < kEach; ++i) {
        if (!bed.journal->admit().ok()) in_order = false;
        const Lsn lsn = bed.append(t * kEach + i + 1, i % 50 == 0 ? 20'000 : 0);
        if (raw(lsn) <= raw(before)) in_order = false;
        before = lsn;
        if (i % 10 != 0) continue;
        if (!bed.journal->sync().ok() || raw(bed.journal->durable()) < raw(lsn)) in_order = false;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(in_order);
  ASSERT_TRUE(bed.journal->stop().ok());
  EXPECT_EQ(hooked, kThreads * kEach);
  const std::vector<uint64_t> found = bed.read_again();
  ASSERT_EQ(found.size(), kThreads * kEach);
  std::vector<uint64_t> last(kThreads);
  for (const uint64_t number : found) {
    uint64_t& of_thread = last[(number - 1) / kEach];
    EXPECT_LT(of_thread, number);
    of_thread = number;
  }
}

TEST(Journal, BecomesDurableByItself) {
  JournalBed bed;
  ASSERT_TRUE(bed.start().ok());
  bed.append(1);
  EXPECT_TRUE(comes_true([&] { return bed.journal->durable() == Lsn{1}; }));
  bed.abandon();
  bed.medium->crash_brick(1);
  EXPECT_EQ(bed.read_again(), JournalBed::up_to(1));
}

TEST(Journal, IsDurableOnceWrittenOnAVolatileBrick) {
  JournalBed bed(Durability::kVolatile);
  ASSERT_TRUE(bed.start().ok());
  bed.append(1);
  EXPECT_TRUE(comes_true([&] { return bed.journal->durable() == Lsn{1}; }));
  EXPECT_EQ(bed.journal->written(), Lsn{1});
}

// There nothing stands behind what is written.
TEST(Journal, NobodyWaitsForTheCommitterWhereAllIsWrittenToAVolatileBrick) {
  JournalBed bed(Durability::kVolatile);
  ASSERT_TRUE(bed.start().ok());
  bed.append(1);
  ASSERT_TRUE(comes_true([&] { return bed.journal->written() == Lsn{1}; }));
  Interruption interrupted;
  interrupted.raise();
  EXPECT_TRUE(bed.journal->sync(&interrupted).ok()) << "it waited";
  bed.medium->fail_with(EIO);
  bed.append(2);
  EXPECT_FALSE(bed.journal->sync(&interrupted).ok()) << "what is not written is waited for";
}

TEST(Journal, RotationBeginsABlockAndDropsWhatIsBefore) {
  JournalBed bed;
  ASSERT_TRUE(bed.start().ok());
  uint64_t last = 0;
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 150; ++i) bed.append(++last, 30'000);
    ASSERT_TRUE(bed.journal->sync().ok());
    const uint64_t before = bed.journal->chain_blocks();
    EXPECT_GE(before, 3u);
    const auto position = bed.journal->rotate();
    ASSERT_TRUE(position.ok());
    EXPECT_EQ(position->next, Lsn{last + 1});
    EXPECT_EQ(bed.journal->rotate()->block, position->block);  // nothing is in it yet
    EXPECT_EQ(bed.journal->chain_blocks(), before + 1);
    bed.append(++last);
    ASSERT_TRUE(bed.journal->sync().ok());

    ASSERT_TRUE(bed.journal->drop_before(*position).ok());
    EXPECT_EQ(bed.journal->chain_blocks(), 1u);
    RowText text;
    const auto end =
        read_journal(*bed.volume, JournalBed::kSeed, position->next, position->block, *bed.volume->list(), text);
    ASSERT_TRUE(end.ok());
    EXPECT_EQ(end->damage, "");
    EXPECT_EQ(JournalBed::numbers(text), std::vector<uint64_t>{last});
    EXPECT_FALSE(bed.medium->has_block(JournalBed::kFirstBlock));
  }
}

TEST(Journal, SaysThatItGrows) {
  JournalBed bed;
  std::atomic<int> grown{0};
  ASSERT_TRUE(bed.start({.on_durable = nullptr, .on_block_added = [&] { ++grown; }}).ok());
  for (int i = 0; i < 150; ++i) bed.append(1, 30'000);
  ASSERT_TRUE(bed.journal->sync().ok());
  EXPECT_EQ(grown, 2);
  EXPECT_EQ(bed.journal->chain_blocks(), 3u);
}

TEST(Journal, HoldsOperationsUpWhenTooMuchIsPending) {
  JournalBed bed;
  ASSERT_TRUE(bed.start().ok());
  for (uint64_t i = 1; i <= 3000; ++i) {
    ASSERT_TRUE(bed.journal->admit().ok());
    bed.append(i, 5'000);
  }
  ASSERT_TRUE(bed.journal->sync().ok());
  EXPECT_EQ(bed.read_again(), JournalBed::up_to(3000));
}

TEST(Journal, WritesWhatCameWhileAnswersWentFirst) {
  for (const Durability durability : {Durability::kDurable, Durability::kVolatile}) {
    JournalBed bed(durability);
    ASSERT_TRUE(bed.start().ok());
    for (uint64_t i = 1; i <= 100; ++i) {
      if (i % 10 == 0) std::this_thread::sleep_for(milliseconds(2));  // so that the committer sleeps
      WakeLater answer_first(&bed.journal->committer());
      bed.append(i, 0, &answer_first);
    }
    EXPECT_TRUE(comes_true([&] { return bed.journal->written() == Lsn{100}; }));
    bed.abandon();
    EXPECT_EQ(bed.read_again(), JournalBed::up_to(100));
  }
}

TEST(Journal, WhoeverWaitsForItWakesItAlsoBeforeTheAnswer) {
  JournalBed bed;
  ASSERT_TRUE(bed.start().ok());
  std::this_thread::sleep_for(milliseconds(2));
  WakeLater answer_first(&bed.journal->committer());
  bed.append(1, 0, &answer_first);
  std::thread another([&] { EXPECT_TRUE(bed.journal->sync().ok()); });
  another.join();
  bed.append(2, 0, &answer_first);
  EXPECT_TRUE(bed.journal->sync().ok());
  for (uint64_t i = 3; i <= 3000; ++i) {
    ASSERT_TRUE(bed.journal->admit().ok());
    bed.append(i, 5'000, &answer_first);
  }
  std::thread third([&] { EXPECT_EQ(bed.append(3001), Lsn{3001}); });
  third.join();
  EXPECT_TRUE(comes_true([&] { return bed.journal->written() == Lsn{3001}; }));
}

// --- errors

TEST(Journal, AFencedClientsJournalFailsForGood) {
  JournalBed bed;
  ASSERT_TRUE(bed.start().ok());
  bed.append(1);
  ASSERT_TRUE(bed.journal->sync().ok());
  bed.medium->fail_with(ESTALE);
  bed.append(2);
  EXPECT_EQ(bed.journal->sync().code(), ESTALE);
  EXPECT_EQ(bed.journal->error().code(), ESTALE);
  EXPECT_EQ(bed.journal->admit().code(), ESTALE);
  EXPECT_EQ(bed.journal->rotate().code(), ESTALE);
  bed.medium->fail_with(0);
  bed.append(3);
  EXPECT_EQ(bed.journal->sync().code(), ESTALE);
  EXPECT_EQ(bed.journal->stop().code(), ESTALE);
  EXPECT_EQ(bed.read_again(), JournalBed::up_to(1));
  EXPECT_EQ(bed.end.damage, "");
}

TEST(Journal, NothingIsAdmittedOnceAnyCallHasSeenTheTakeOver) {
  for (const Durability durability : {Durability::kDurable, Durability::kVolatile}) {
    JournalBed bed(durability);
    ASSERT_TRUE(bed.start().ok());
    bed.append(1);
    ASSERT_TRUE(bed.journal->sync().ok());  // the committer has nothing more to do, and sees nothing of what follows
    ASSERT_TRUE(bed.journal->admits());
    bed.medium->fail_with(ESTALE);
    ASSERT_EQ(bed.volume->commit().code(), ESTALE);
    EXPECT_TRUE(bed.journal->error().ok());
    EXPECT_FALSE(bed.journal->admits());
    EXPECT_EQ(bed.journal->admit().code(), ESTALE);
    EXPECT_EQ(bed.journal->sync().code(), ESTALE);
    EXPECT_EQ(bed.journal->error().code(), ESTALE);
  }
}

TEST(Journal, APassingErrorIsToldAndPasses) {
  JournalBed bed;
  ASSERT_TRUE(bed.start().ok());
  bed.append(1);
  ASSERT_TRUE(bed.journal->sync().ok());
  bed.medium->fail_with(EIO);
  bed.append(2);
  EXPECT_EQ(bed.journal->sync().code(), EIO);
  EXPECT_TRUE(bed.journal->error().ok());
  bed.medium->fail_with(0);
  EXPECT_TRUE(comes_true([&] { return bed.journal->sync().ok(); }));
  EXPECT_EQ(bed.read_again(), JournalBed::up_to(2));
}

TEST(Journal, EndsWhenThereIsNoBlockForIt) {
  JournalBed bed(Durability::kVolatile, 64);
  ASSERT_TRUE(bed.start().ok());
  bed.medium->set_capacity(0);
  uint64_t last = 0;
  Status status;
  while (status.ok() && last < 10'000) {
    for (int i = 0; i < 80; ++i) bed.append(++last, 30'000);
    status = bed.journal->sync();
  }
  EXPECT_EQ(status.code(), ENOSPC);
  EXPECT_EQ(bed.journal->error().code(), ENOSPC);
  const std::vector<uint64_t> found = bed.read_again();
  EXPECT_EQ(found, JournalBed::up_to(found.size()));
  EXPECT_EQ(bed.end.damage, "");
}

TEST(Journal, StopsOnceAndForAll) {
  JournalBed bed;
  ASSERT_TRUE(bed.start().ok());
  bed.append(1);
  ASSERT_TRUE(bed.journal->stop().ok());
  EXPECT_TRUE(bed.journal->stop().ok());
  EXPECT_EQ(bed.journal->sync().code(), ECANCELED);
  EXPECT_EQ(bed.read_again(), JournalBed::up_to(1));
}

}  // namespace
}  // namespace brickfs
