// SPDX-License-Identifier: Apache-2.0
#include "fs/shared/read_cache.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <optional>
#include <random>
#include <thread>
#include <vector>

namespace brickfs::shared {
namespace {

using Content = std::vector<std::byte>;

constexpr uint64_t kPage = ReadCache::kPageBytes;

Content pattern(size_t length, unsigned seed) {
  std::minstd_rand random(seed);
  Content bytes(length);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

LocalSlice slice_of(Content& bytes) { return {bytes.data(), static_cast<uint32_t>(bytes.size()), 0}; }

std::optional<Content> copy(ReadCache& cache, uint64_t version, uint64_t offset, size_t length) {
  Content bytes(length);
  const uint32_t half = static_cast<uint32_t>(length / 3);
  const std::array into = {LocalSlice{bytes.data(), half, 0},
                           LocalSlice{bytes.data() + half, static_cast<uint32_t>(length - half), 0}};
  return cache.copy(version, offset, length, into) ? std::optional(bytes) : std::nullopt;
}

void keep(ReadCache& cache, uint64_t version, uint64_t offset, Content bytes, bool is_end = false) {
  const LocalSlice from = slice_of(bytes);
  cache.keep(version, offset, bytes.size(), is_end, {&from, 1});
}

Content part(const Content& of, size_t begin, size_t end) { return {of.begin() + begin, of.begin() + end}; }

TEST(ReadCache, HasWhatWasKept) {
  ReadCache cache(kMiB);
  const Content bytes = pattern(5 * kPage, 1);
  keep(cache, 7, 3 * kPage, bytes);
  EXPECT_EQ(copy(cache, 7, 3 * kPage, 5 * kPage), bytes);
  EXPECT_EQ(copy(cache, 7, 3 * kPage + 10, 2 * kPage), part(bytes, 10, 10 + 2 * kPage));
  EXPECT_EQ(copy(cache, 7, 2 * kPage, 2 * kPage), std::nullopt) << "not all of it is there";
  EXPECT_EQ(copy(cache, 7, 7 * kPage, 2 * kPage), std::nullopt);
  EXPECT_EQ(copy(cache, 8, 3 * kPage, kPage), std::nullopt) << "another version";
  EXPECT_EQ(copy(cache, 9, 0, 0), Content()) << "nothing is always there";
}

TEST(ReadCache, KeepsWholePagesAlone) {
  ReadCache cache(kMiB);
  const Content bytes = pattern(3 * kPage, 1);
  keep(cache, 7, 100, bytes);
  EXPECT_EQ(copy(cache, 7, 100, 10), std::nullopt);
  EXPECT_EQ(copy(cache, 7, kPage, 2 * kPage), part(bytes, kPage - 100, 3 * kPage - 100));
  EXPECT_EQ(copy(cache, 7, 3 * kPage, 10), std::nullopt);
  keep(cache, 8, 100, pattern(50, 1));
  EXPECT_EQ(copy(cache, 8, 100, 10), std::nullopt);
}

TEST(ReadCache, TheLastPageIsAsLongAsTheFile) {
  ReadCache cache(kMiB);
  const Content bytes = pattern(kPage + 50, 1);
  keep(cache, 7, 0, bytes, false);
  EXPECT_EQ(copy(cache, 7, kPage, 50), std::nullopt);
  keep(cache, 7, 0, bytes, true);
  EXPECT_EQ(copy(cache, 7, kPage, 50), part(bytes, kPage, kPage + 50));
}

TEST(ReadCache, WhatIsUsedStaysLongest) {
  ReadCache cache(8 * kPage);  // one set
  for (uint64_t i = 0; i < 8; ++i) keep(cache, 7, i * kPage, pattern(kPage, static_cast<unsigned>(i)));
  for (unsigned i = 100; i < 200; ++i) {
    ASSERT_EQ(copy(cache, 7, 3 * kPage, kPage), pattern(kPage, 3)) << i;
    keep(cache, 7, i * kPage, pattern(kPage, i));
    ASSERT_EQ(copy(cache, 7, i * kPage, kPage), pattern(kPage, i));
  }
  EXPECT_EQ(copy(cache, 7, 4 * kPage, kPage), std::nullopt);
}

// Each page has one byte all over, which says of which version and number it is.
TEST(ReadCache, IsNeverTornOrAnothers) {
  ReadCache cache(64 * kPage);
  const auto byte_of = [](uint64_t version, uint64_t number) { return std::byte(version * 31 + number * 7); };
  std::atomic<uint64_t> found{0};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::minstd_rand random(t + 1);
      for (int i = 0; i < 20'000; ++i) {
        const uint64_t version = 1 + random() % 5, number = random() % 40;
        if (random() % 2 == 0) {
          keep(cache, version, number * kPage, Content(kPage, byte_of(version, number)));
        } else if (const auto bytes = copy(cache, version, number * kPage, kPage)) {
          ++found;
          ASSERT_EQ(*bytes, Content(kPage, byte_of(version, number)));
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(found, 1'000u);
}

}  // namespace
}  // namespace brickfs::shared
