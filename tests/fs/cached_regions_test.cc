// SPDX-License-Identifier: Apache-2.0
#include "fs/inode/cached_regions.h"

#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "transport/base/bytes.h"

namespace brickfs {
namespace {

using Range = CachedRegions::Range;

constexpr uint64_t kRegion = 256 * kKiB;

TEST(CachedRegions, NothingIsCachedAtFirst) {
  CachedRegions regions;
  EXPECT_FALSE(regions.touches(0, UINT64_MAX));
  EXPECT_EQ(regions.take(0, UINT64_MAX), std::nullopt);
}

TEST(CachedRegions, WhatIsTakenIsForgottenAndTheRestIsNot) {
  CachedRegions regions;
  regions.add(3 * kRegion + 5, 1);
  regions.add(7 * kRegion, 1);
  EXPECT_TRUE(regions.touches(4 * kRegion - 1, 1));
  EXPECT_FALSE(regions.touches(4 * kRegion, 1));
  EXPECT_EQ(regions.take(3 * kRegion, 1), (Range{3 * kRegion, kRegion}));
  EXPECT_EQ(regions.take(3 * kRegion, 1), std::nullopt);
  EXPECT_EQ(regions.take(0, UINT64_MAX), (Range{7 * kRegion, kRegion}));
}

TEST(CachedRegions, ARangeOverSeveralIsTakenWhole) {
  CachedRegions regions;
  regions.add(kRegion - 1, kRegion + 2);  // the end of one, another, the start of a third
  EXPECT_EQ(regions.take(kRegion - 1, 2), (Range{0, 2 * kRegion}));
  EXPECT_EQ(regions.take(0, UINT64_MAX), (Range{2 * kRegion, kRegion}));
}

TEST(CachedRegions, NothingIsTooFar) {
  CachedRegions regions;
  regions.add(0, 1);
  regions.add(INT64_MAX - 1, 5);
  EXPECT_TRUE(regions.touches(0, 1)) << "what was noted before stays";
  EXPECT_TRUE(regions.touches(INT64_MAX - 100, 100));
  const auto all = regions.take(0, UINT64_MAX);
  ASSERT_TRUE(all);
  EXPECT_EQ(all->offset, 0u);
  EXPECT_EQ(all->length, uint64_t{INT64_MAX});
  EXPECT_FALSE(regions.touches(0, UINT64_MAX));
}

// Against a set of pages: what is in it is always covered by what is taken.
TEST(CachedRegions, CoversWhatWasAdded) {
  for (unsigned seed = 0; seed < 50; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    CachedRegions regions;
    std::set<uint64_t> pages;
    for (int i = 0; i < 300; ++i) {
      const uint64_t bytes = uint64_t{1} << (12 + random() % 30);
      const uint64_t offset = random() % bytes / 4096 * 4096;
      const uint64_t length = 4096 * (1 + random() % 64);
      if (random() % 3 != 0) {
        regions.add(offset, length);
        for (uint64_t page = offset; page < offset + length; page += 4096) pages.insert(page);
        continue;
      }
      const auto taken = regions.take(offset, length);
      for (uint64_t page = offset; page < offset + length; page += 4096) {
        const bool covered = taken && taken->offset <= page && page - taken->offset < taken->length;
        ASSERT_TRUE(covered || !pages.contains(page));
      }
      if (taken)
        std::erase_if(pages,
                      [&](uint64_t page) { return page >= taken->offset && page - taken->offset < taken->length; });
    }
    for (const uint64_t page : pages) EXPECT_TRUE(regions.touches(page, 1)) << page;
  }
}

TEST(CachedRegions, NothingIsLostBetweenThreads) {
  CachedRegions regions;
  std::atomic<uint64_t> taken = 0;
  constexpr uint64_t kTimes = 20'000;
  std::vector<std::thread> threads;
  for (uint64_t thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {  // a region each: nobody else takes what it has added
      for (uint64_t i = 0; i < kTimes; ++i) {
        regions.add(thread * kRegion, 1);
        if (regions.take(thread * kRegion, 1) == Range{thread * kRegion, kRegion}) ++taken;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(taken, 4 * kTimes);
}

}  // namespace
}  // namespace brickfs
