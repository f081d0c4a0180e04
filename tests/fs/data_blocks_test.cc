// SPDX-License-Identifier: Apache-2.0
#include "fs/space/data_blocks.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "fs/space/block_budget.h"

namespace brickfs {
namespace {

constexpr uint64_t kBlock = kUnitsPerBlock;

TEST(UnitBitmap, FindsWhatAPlainScanFinds) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  UnitBitmap bitmap;
  std::vector<bool> used(UnitBitmap::kUnits);
  const auto run_length = [&used](uint32_t first, bool value) {
    uint32_t end = first;
    while (end < used.size() && used[end] == value) ++end;
    return end - first;
  };
  for (int round = 0; round < 3000; ++round) {
    const uint32_t first = random() % UnitBitmap::kUnits;
    const uint32_t run = std::min<uint32_t>(run_length(first, used[first]), 1 + random() % 100);
    const bool was_used = used[first];
    was_used ? bitmap.give_back({first, run}) : bitmap.use({first, run});
    std::fill_n(used.begin() + first, run, !was_used);
    ASSERT_EQ(bitmap.free_units(), std::count(used.begin(), used.end(), false));

    const uint32_t from = random() % UnitBitmap::kUnits;
    ASSERT_EQ(bitmap.free_from(from, 1000), run_length(from, false));
    const uint32_t wanted = 1 + random() % 20;
    uint32_t fit = 0;
    while (fit < used.size() && run_length(fit, false) < wanted) ++fit;
    const UnitBitmap::Run found = bitmap.find_free(wanted);
    ASSERT_EQ(found.count, fit < used.size() ? wanted : 0);
    ASSERT_EQ(found.first, found.count > 0 ? fit : 0);
  }
}

TEST(DataBlocks, AdoptsWhatIsInUseOnce) {
  DataBlocks data;
  EXPECT_TRUE(data.adopt({3 * kBlock + 500, 600}).ok());  // the end of block 3, block 4, the start of block 5
  EXPECT_EQ(data.blocks(), 3u);
  EXPECT_EQ(data.free_units(), 500 + kBlock - 76);
  EXPECT_EQ(data.adopt({5 * kBlock + 75, 2}).code(), EUCLEAN);
  EXPECT_EQ(data.adopt({4 * kBlock + 9, 1}).code(), EUCLEAN);
  EXPECT_TRUE(data.adopt({5 * kBlock + 76, kBlock - 76}).ok());
  data.give_back({5 * kBlock, kBlock});
  EXPECT_EQ(data.empty_blocks(), 1u);
  EXPECT_EQ(data.remove_empty(10, BlockBudget::kAllAddresses), (BlockRun{5, 1}));
  EXPECT_EQ(data.blocks(), 2u);
}

TEST(DataBlocks, SmallFilesShareBlocks) {
  DataBlocks data;
  data.add({1, 1}, 3);
  for (int i = 0; i < 100; ++i) {
    const auto run = data.take_fitting(5);
    ASSERT_TRUE(run.has_value());
    EXPECT_EQ(run->first / kBlock, 1u);
  }
  EXPECT_EQ(data.blocks(), 1u);
}

TEST(DataBlocks, AStreamKeepsTheRestOfItsBlock) {
  DataBlocks data;
  data.add({1, 1}, 256);  // of a stream
  EXPECT_FALSE(data.take_fitting(1).has_value());
  EXPECT_EQ(data.extend(kBlock + 256, 1000), (UnitRun{kBlock + 256, 256}));
  data.give_back({kBlock, 1});
  EXPECT_EQ(data.take_fitting(1), (UnitRun{kBlock, 1})) << "a full block that got room is no stream's any more";
}

TEST(DataBlocks, EveryFreeUnitCanBeTaken) {
  DataBlocks data;
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  ASSERT_TRUE(data.adopt({kBlock, 8 * kBlock}).ok());
  uint64_t given_back = 0;
  for (uint64_t unit = kBlock; unit < 9 * kBlock; ++unit) {
    if (random() % 3 != 0) continue;
    data.give_back({unit, 1});
    ++given_back;
  }
  std::set<uint64_t> taken;
  while (true) {
    const UnitRun run = data.take_any(1 + random() % 4);
    if (run.count == 0) break;
    for (uint64_t unit = run.first; unit < run.end(); ++unit) ASSERT_TRUE(taken.insert(unit).second);
  }
  EXPECT_EQ(taken.size(), given_back);
  EXPECT_EQ(data.free_units(), 0u);
}

}  // namespace
}  // namespace brickfs
