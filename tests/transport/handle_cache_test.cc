// SPDX-License-Identifier: Apache-2.0
#include "transport/volume/handle_cache.h"

#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <thread>

#include "tests/support/block_numbers.h"

namespace brickfs {
namespace {

using std::chrono::milliseconds;
using testing::block_number;
using testing::blocks;
using Lease = HandleCache::Lease;
using Retire = HandleCache::Retire;

Lease map(HandleCache& cache, uint64_t first, uint64_t count, Access access) {
  HandleCache::Claim claim = cache.claim_missing(block_number(first), count, access);
  const Handle handle{claim.range(), access, 0, 1};
  auto lease = cache.insert(std::move(claim), std::span(&handle, 1), access, block_number(first));
  EXPECT_TRUE(lease.ok());
  return std::move(*lease);
}

TEST(HandleCache, FindsWhatIsMappedForIt) {
  HandleCache cache;
  map(cache, 3, 4, Access::kRead);
  EXPECT_TRUE(cache.find(block_number(6), Access::kRead));
  EXPECT_FALSE(cache.find(block_number(6), Access::kReadWrite));
  EXPECT_FALSE(cache.find(block_number(7), Access::kRead));
  EXPECT_TRUE(cache.claim_missing(block_number(4), 1, Access::kRead).empty());
}

TEST(HandleCache, ClaimsStopAtWhatOthersHave) {
  HandleCache cache;
  map(cache, 5, 1, Access::kRead);
  const auto claim = cache.claim_missing(block_number(2), 10, Access::kRead);
  EXPECT_EQ(claim.range(), blocks(2, 3));
  const auto other = cache.claim_missing(block_number(0), 10, Access::kRead);
  EXPECT_EQ(other.range(), blocks(0, 2));
}

TEST(HandleCache, AnUpgradeTakesTheWholeMappingAndWaitsForItsReaders) {
  HandleCache cache;
  Lease reader = map(cache, 0, 4, Access::kRead);
  auto claim = cache.claim_missing(block_number(2), 1, Access::kReadWrite);
  EXPECT_EQ(claim.range(), blocks(0, 4));
  const Handle handle{blocks(0, 4), Access::kReadWrite, 0, 2};
  ASSERT_TRUE(cache.insert(std::move(claim), std::span(&handle, 1), Access::kReadWrite, block_number(2)).ok());
  EXPECT_EQ(cache.mapped_blocks(), 4u);
  EXPECT_EQ(cache.writable_blocks(), 4u);
  EXPECT_TRUE(cache.take_cold(10, 0, false).empty()) << "unmapping would end the reader's handle too";
  reader = Lease();
  EXPECT_EQ(cache.take_cold(10, 0, false).blocks().count(), 4u);
}

TEST(HandleCache, RefusesHandlesThatDoNotCoverTheClaim) {
  HandleCache cache;
  for (const BlockRange covered : {blocks(0, 2), blocks(1, 3), blocks(0, 4), BlockRange{BlockAddress{1}, 3}}) {
    auto claim = cache.claim_missing(block_number(0), 3, Access::kRead);
    const Handle handle{covered, Access::kRead, 0, 1};
    EXPECT_EQ(cache.insert(std::move(claim), std::span(&handle, 1), Access::kRead, block_number(0)).code(), EPROTO);
  }
  EXPECT_EQ(cache.mapped_blocks(), 0u);
}

TEST(HandleCache, GivesUpTheColdCleanAndUnused) {
  HandleCache cache;
  const Lease used = map(cache, 0, 1, Access::kReadWrite);
  map(cache, 1, 1, Access::kReadWrite).written(5);
  map(cache, 2, 1, Access::kReadWrite).written(4);
  map(cache, 3, 1, Access::kRead);
  {
    const auto cold = cache.take_cold(10, 4, true);
    EXPECT_EQ(cold.blocks().ranges(), std::vector{blocks(2, 1)});
    EXPECT_FALSE(cache.find(block_number(2), Access::kRead));
  }
  EXPECT_EQ(cache.take_cold(10, 4, false).blocks().ranges(), std::vector{blocks(3, 1)});
  EXPECT_TRUE(cache.take_cold(10, 4, false).empty());
  EXPECT_EQ(cache.mapped_blocks(), 2u);
}

TEST(HandleCache, RetiresForAFree) {
  HandleCache cache;
  Lease lease = map(cache, 0, 4, Access::kReadWrite);
  HandleCache::Claim claim;
  EXPECT_EQ(cache.retire(blocks(1, 1), 0, claim), Retire::kInUse);
  lease.written(7);
  lease = Lease();
  EXPECT_EQ(cache.retire(blocks(1, 1), 6, claim), Retire::kDirty);
  EXPECT_TRUE(cache.find(block_number(0), Access::kRead)) << "still there";
  EXPECT_EQ(cache.retire(blocks(0, 4), 6, claim), Retire::kDone) << "all of it goes";
  EXPECT_EQ(cache.mapped_blocks(), 0u);
}

// Whoever has a lease has a live handle, whatever others unmap meanwhile.
TEST(HandleCache, LeasesKeepHandlesAlive) {
  HandleCache cache;
  constexpr uint64_t kBlocks = 8;
  std::array<std::atomic<uint32_t>, kBlocks> live{};  // the key that is valid for a block; 0: not mapped
  std::atomic<uint32_t> next_key{1};
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (uint64_t seed = 0; seed < 3; ++seed) {
    threads.emplace_back([&, seed] {
      std::mt19937 random(static_cast<uint32_t>(seed));
      while (!stop) {
        const uint64_t number = random() % kBlocks;
        Lease lease = cache.find(block_number(number), Access::kReadWrite);
        if (!lease) {
          auto claim = cache.claim_missing(block_number(number), 1, Access::kReadWrite);
          if (claim.empty()) continue;
          const Handle handle{blocks(number, 1), Access::kReadWrite, 0, next_key++};
          live[number] = handle.remote_key;
          lease = std::move(
              *cache.insert(std::move(claim), std::span(&handle, 1), Access::kReadWrite, block_number(number)));
        }
        ASSERT_EQ(live[number], lease.handle().remote_key);
        std::this_thread::yield();
        ASSERT_EQ(live[number], lease.handle().remote_key);
      }
    });
  }
  threads.emplace_back([&] {
    while (!stop) {
      const auto cold = cache.take_cold(2, 0, false);
      cold.blocks().for_each(1, [&](BlockRange one) {
        live[raw(one.start) / kBlockBytes] = 0;
        return true;
      });
    }
  });
  std::this_thread::sleep_for(milliseconds(200));
  stop = true;
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace brickfs
