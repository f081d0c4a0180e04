// SPDX-License-Identifier: Apache-2.0
// The keys by which a client reaches memory. None of this needs a device.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "server/service/handle_table.h"
#include "server/verbs/access.h"
#include "tests/support/tcp_test_brick.h"

namespace brickfs {
namespace {

constexpr BlockRange kFirstBlock{BlockAddress{0}, 1};

// A client can have four thousand million handles, one after the other.
TEST(VerbsAccess, KeysBeginAgainBehindTheLastNumber) {
  std::string why;
  const auto service = BrickService::open(testing::memory_config(2), &why);
  ASSERT_TRUE(service.ok()) << why;
  VerbsDevices devices(**service);
  VerbsAccess access(devices, UINT32_MAX - 1);
  std::array<std::byte, 64> memory{};
  std::vector<uint32_t> keys;
  for (int i = 0; i < 4; ++i) keys.push_back(*access.grant(memory, Access::kRead));
  EXPECT_EQ(keys, (std::vector<uint32_t>{UINT32_MAX - 1, UINT32_MAX, 1, 2}));
  access.revoke(keys);
}

TEST(HandleTable, TwoHandlesNeverHaveOneKey) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  HandleTable table(16);
  std::vector<std::byte> memory(1);
  ASSERT_TRUE(table.add(kFirstBlock, Access::kRead, memory.data(), 7).ok());
  EXPECT_DEATH(static_cast<void>(table.add(kFirstBlock, Access::kRead, memory.data(), 7)), "added");
}

}  // namespace
}  // namespace brickfs
