// SPDX-License-Identifier: Apache-2.0
#include "fs/space/block_budget.h"

#include <gtest/gtest.h>

namespace brickfs {
namespace {

// Blocks go back to the brick while a call is refused, or it is asked what it can give: that does not count any more.
TEST(BlockBudget, ARefusalFromBeforeAnotherCallEndedIsPassedOver) {
  BlockBudget budget(64, 64, BlockBudget::kAllAddresses, BlockBudget::For::kMetadataToo);
  budget.set_allocatable(10, budget.version());
  for (const bool others : {true, false}) {
    if (others) budget.begin_free(6);
    const BlockRun run = budget.begin_alloc(4);
    const uint64_t version = budget.version();
    if (others) budget.end_free(6, true);
    budget.end_alloc(run, false);
    EXPECT_EQ(budget.allocatable(), 16u);
    EXPECT_EQ(budget.cap_allocatable(3, version), !others);
  }
  EXPECT_EQ(budget.allocatable(), 3u);
}

}  // namespace
}  // namespace brickfs
