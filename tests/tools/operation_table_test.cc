// SPDX-License-Identifier: Apache-2.0
#include "tools/brickctl/operation_table.h"

#include <gtest/gtest.h>

namespace brickfs {
namespace {

OperationState operation(const char* name, uint64_t count, double seconds, std::vector<uint64_t> buckets = {}) {
  OperationState state;
  state.name = name;
  state.count = count;
  state.seconds = seconds;
  state.buckets = std::move(buckets);
  return state;
}

TEST(OperationTable, HasWhatWasCountedInBetween) {
  const std::vector<OperationState> before{operation("read", 10, 1, {5, 5})};
  const std::vector<OperationState> now{operation("read", 30, 1.5, {5, 25}), operation("write", 4, 0.2, {0, 0, 4})};
  const auto since = operations_since(before, now);
  ASSERT_EQ(since.size(), 2u);
  EXPECT_EQ(since[0].count, 20u);
  EXPECT_DOUBLE_EQ(since[0].seconds, 0.5);
  EXPECT_EQ(since[0].buckets, (std::vector<uint64_t>{0, 20}));
  EXPECT_EQ(since[1].count, 4u);
  EXPECT_EQ(operations_since(now, before)[0].count, 0u) << "what goes backwards is nothing";
}

TEST(OperationTable, KnowsQuantilesToTheirBuckets) {
  const OperationState one = operation("read", 100, 1, {50, 0, 0, 49, 0, 0, 0, 0, 0, 0, 1});
  EXPECT_DOUBLE_EQ(quantile_seconds(one, 0.5), 1e-6);
  EXPECT_DOUBLE_EQ(quantile_seconds(one, 0.99), 8e-6);
  EXPECT_DOUBLE_EQ(quantile_seconds(one, 1), 1024e-6);
  EXPECT_EQ(quantile_seconds(operation("none", 0, 0), 0.5), 0);
  EXPECT_EQ(quantile_seconds(operation("none", 0, 0, {0, 0}), 0.5), 0);
}

TEST(OperationTable, IsSorted) {
  std::vector<OperationState> all{operation("b", 100, 1), operation("a", 1, 0.5), operation("c", 10, 3)};
  const auto names = [&all] {
    std::string text;
    for (const OperationState& one : all) text += one.name;
    return text;
  };
  sort_operations(all, SortBy::kName);
  EXPECT_EQ(names(), "abc");
  sort_operations(all, SortBy::kTime);
  EXPECT_EQ(names(), "cba");
  sort_operations(all, SortBy::kCount);
  EXPECT_EQ(names(), "bca");
  sort_operations(all, SortBy::kMean);
  EXPECT_EQ(names(), "acb");
}

TEST(OperationTable, LeavesOutWhatDidNotHappen) {
  std::vector<OperationState> all{operation("read", 100, 0.002, {0, 0, 0, 0, 0, 100}), operation("write", 0, 0)};
  all[0].bytes = 409'600;
  EXPECT_EQ(operation_table(all, 2, true),
            "operation              count       per s    failed      mean     p50 <     p99 <      MB/s  % of time\n"
            "read                     100        50.0         0   20.0 us   32.0 us   32.0 us       0.2      100.0\n");
}

}  // namespace
}  // namespace brickfs
