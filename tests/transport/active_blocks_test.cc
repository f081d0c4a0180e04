// SPDX-License-Identifier: Apache-2.0
#include "transport/volume/active_blocks.h"

#include <gtest/gtest.h>

#include <array>

namespace brickfs {
namespace {

constexpr BlockRange kFirst{BlockAddress{8 * kBlockBytes}, 1};

// Writes to some bytes of a block and is done.
void write_to(ActiveBlocks& blocks, BlockRange block) {
  std::array<std::byte, 8> bytes{};
  const Piece piece{raw(block.start), {{bytes.data(), static_cast<uint32_t>(bytes.size()), 0}}};
  ASSERT_TRUE(blocks.claim(std::span(&piece, 1), nullptr).ok());
}

ActiveBlocks without_replicas() {
  return ActiveBlocks([](std::span<const ActiveBlocks::Row>, const Interruption*) { return Status(); });
}

TEST(ActiveBlocks, ARowGoesWhenOthersNeedItsPlace) {
  ActiveBlocks blocks = without_replicas();
  write_to(blocks, kFirst);
  for (uint64_t i = 1; i <= kActiveRows; ++i) write_to(blocks, {block_after(kFirst.start, i), 1});
  EXPECT_FALSE(blocks.active().contains(kFirst));
}

TEST(ActiveBlocks, TheRowOfABlockThatIsDifferentStays) {
  ActiveBlocks blocks = without_replicas();
  write_to(blocks, kFirst);
  blocks.keep(kFirst);
  for (uint64_t i = 1; i <= 2 * kActiveRows; ++i) write_to(blocks, {block_after(kFirst.start, i), 1});
  EXPECT_TRUE(blocks.active().contains(kFirst));
  blocks.let_go(kFirst);
  for (uint64_t i = 1; i <= kActiveRows; ++i) write_to(blocks, {block_after(kFirst.start, i), 1});
  EXPECT_FALSE(blocks.active().contains(kFirst));
}

}  // namespace
}  // namespace brickfs
