// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <vector>

#include "fs/shm_queue/memory.h"
#include "fs/shm_queue/serve/program.h"

namespace brickfs::testing {
namespace {

TEST(MemoryShares, AUserHasSoMuchAndGivesItBack) {
  constexpr uint64_t kPart = shm_queue::kMostBufferBytes;
  MemoryShares shares;
  std::vector<MemoryShares::Share> taken;
  for (uint64_t bytes = 0; bytes < shm_queue::kMostMemoryOfUser; bytes += kPart) {
    auto share = shares.take(1000, kPart);
    ASSERT_TRUE(share.ok());
    taken.push_back(std::move(*share));
  }
  EXPECT_EQ(shares.take(1000, 1).code(), EUSERS);
  EXPECT_EQ(shares.take(1000, UINT64_MAX).code(), EUSERS);
  EXPECT_TRUE(shares.take(1001, kPart).ok());  // another's
  EXPECT_TRUE(shares.take(0, 100 * shm_queue::kMostMemoryOfUser).ok());
  taken.pop_back();
  auto again = shares.take(1000, kPart);
  EXPECT_TRUE(again.ok());
  EXPECT_EQ(shares.take(1000, 1).code(), EUSERS);
}

}  // namespace
}  // namespace brickfs::testing
