// SPDX-License-Identifier: Apache-2.0
#include "fs/fuse/protocol/operation_counters.h"

#include <gtest/gtest.h>
#include <linux/fuse.h>

#include <cerrno>

namespace brickfs {
namespace {

using std::chrono::microseconds;

TEST(OperationCounters, AreByNameAndWithWhatCameOfThem) {
  OperationCounters counters;
  EXPECT_TRUE(counters.operations().empty());
  counters.count(FUSE_WRITE, 0, microseconds(10), 4096);
  counters.count(FUSE_WRITE, ENOSPC, microseconds(20), 0);
  counters.count(FUSE_RENAME, 0, microseconds(1), 0);
  counters.count(FUSE_RENAME2, 0, microseconds(1), 0);  // the same to people
  const auto operations = counters.operations();
  ASSERT_EQ(operations.size(), 2u);
  EXPECT_EQ(operations[0].name, "rename");
  EXPECT_EQ(operations[0].counts.count(), 2u);
  EXPECT_EQ(operations[1].name, "write");
  EXPECT_EQ(operations[1].counts.count(), 2u);
  EXPECT_EQ(operations[1].counts.failures, 1u);
  EXPECT_EQ(operations[1].counts.bytes, 4096u);
  EXPECT_EQ(operations[1].counts.nanoseconds, 30'000u);
}

TEST(OperationCounters, ThatSomethingIsNotThereIsNoFailure) {
  OperationCounters counters;
  counters.count(FUSE_LOOKUP, ENOENT, microseconds(1), 0);
  counters.count(FUSE_GETXATTR, ENODATA, microseconds(1), 0);
  counters.count(FUSE_UNLINK, ENOENT, microseconds(1), 0);
  counters.count(FUSE_OPEN, ENOSYS, microseconds(1), 0);  // the kernel does it by itself
  const auto operations = counters.operations();
  ASSERT_EQ(operations.size(), 4u);
  EXPECT_EQ(operations[0].counts.failures, 0u);
  EXPECT_EQ(operations[1].counts.failures, 0u);
  EXPECT_EQ(operations[2].counts.failures, 0u);
  EXPECT_EQ(operations[3].counts.failures, 1u);
}

TEST(OperationCounters, BearKindsThatNobodyKnows) {
  OperationCounters counters;
  counters.count(UINT32_MAX, ENOSYS, microseconds(1), 0);
  counters.count(4096, ENOSYS, microseconds(1), 0);
  counters.count(63, ENOSYS, microseconds(1), 0);
  const auto operations = counters.operations();
  ASSERT_EQ(operations.size(), 1u);
  EXPECT_EQ(operations[0].name, "other");
  EXPECT_EQ(operations[0].counts.count(), 3u);
}

}  // namespace
}  // namespace brickfs
