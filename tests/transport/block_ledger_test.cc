// SPDX-License-Identifier: Apache-2.0
#include "transport/volume/block_ledger.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "tests/support/block_numbers.h"

namespace brickfs {
namespace {

using testing::blocks;
using Ranges = std::vector<BlockRange>;

TEST(BlockSet, IsLikeASetOfNumbers) {
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  BlockSet set;
  std::set<uint64_t> model;
  for (int i = 0; i < 3000; ++i) {
    const uint64_t first = random() % 60;
    const uint64_t count = 1 + random() % 8;
    if (random() % 2 == 0) {
      set.insert(blocks(first, count));
      for (uint64_t b = first; b < first + count; ++b) model.insert(b);
    } else {
      set.erase(blocks(first, count));
      for (uint64_t b = first; b < first + count; ++b) model.erase(b);
    }
    const uint64_t from = random() % 60;
    const uint64_t length = 1 + random() % 5;
    uint64_t inside = 0;
    for (uint64_t b = from; b < from + length; ++b) inside += model.count(b);
    ASSERT_EQ(set.count(), model.size());
    ASSERT_EQ(set.contains(blocks(from, length)), inside == length);
    ASSERT_EQ(set.intersects(blocks(from, length)), inside > 0);
    ASSERT_EQ(set.intersection(blocks(from, length)).count(), inside);
    const Ranges ranges = set.ranges();
    for (size_t r = 1; r < ranges.size(); ++r) ASSERT_LT(raw(ranges[r - 1].end()), raw(ranges[r].start));
  }
}

TEST(BlockLedger, RepairsWhatWasNotCommitted) {
  BlockLedger ledger;
  ledger.start(Ranges{blocks(0, 4)});
  ledger.freed(blocks(0, 1));
  ledger.freed(blocks(1, 1));
  ledger.allocated(blocks(1, 1));
  ledger.allocated(blocks(8, 2));
  const BlockLedger::Repair repair = ledger.plan_repair(Ranges{blocks(0, 4), blocks(8, 1)});
  EXPECT_TRUE(repair.lost.empty());
  EXPECT_EQ(repair.free.ranges(), (Ranges{blocks(0, 2)}));
  EXPECT_EQ(repair.allocate.ranges(), (Ranges{blocks(1, 1), blocks(9, 1)}));
}

TEST(BlockLedger, TellsWhatIsLost) {
  BlockLedger ledger;
  ledger.start(Ranges{blocks(0, 2)});
  ledger.allocated(blocks(5, 1));
  EXPECT_EQ(ledger.plan_repair(Ranges{blocks(0, 1)}).lost.ranges(), (Ranges{blocks(1, 1)}));
  ledger.turn_over();
  ledger.allocated(blocks(6, 1));
  EXPECT_TRUE(ledger.plan_repair(Ranges{blocks(0, 2)}).lost.empty()) << "the commit may have failed";
  ledger.committed();
  EXPECT_EQ(ledger.plan_repair(Ranges{blocks(0, 2)}).lost.ranges(), (Ranges{blocks(5, 1)}));
}

TEST(BlockLedger, AFreeInDoubtIsCarriedOut) {
  BlockLedger ledger;
  ledger.start(Ranges{blocks(0, 4)});
  ledger.freeing(blocks(1, 2));
  const BlockLedger::Repair repair = ledger.plan_repair(Ranges{blocks(0, 2), blocks(3, 1)});
  EXPECT_TRUE(repair.lost.empty());
  EXPECT_EQ(repair.free.ranges(), (Ranges{blocks(1, 1)}));
  EXPECT_TRUE(repair.allocate.empty());
  EXPECT_EQ(ledger.repaired(), (Ranges{blocks(1, 2)}));
  EXPECT_FALSE(ledger.intersects(blocks(1, 2)));
}

TEST(BlockLedger, SettlesWithTheSameBrick) {
  BlockLedger ledger;
  ledger.start(Ranges{blocks(0, 4)});
  ledger.freeing(blocks(1, 1));
  EXPECT_EQ(ledger.settle(Ranges{blocks(0, 1), blocks(2, 2), blocks(7, 1)}), (Ranges{blocks(1, 1)}));
  EXPECT_TRUE(ledger.contains(blocks(7, 1)));
  EXPECT_TRUE(ledger.plan_repair(Ranges{blocks(0, 1), blocks(2, 2)}).lost.empty()) << "block 7 is not committed";
}

}  // namespace
}  // namespace brickfs
