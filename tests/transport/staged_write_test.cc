// SPDX-License-Identifier: Apache-2.0
// What is written to several replicas while its owner changes it, or is refused before any has it.
#include "transport/volume/staged_write.h"

#include "tests/support/replica_bed.h"

namespace brickfs {
namespace {

class StagedWrites : public testing::ReplicaBed {};

// The program changes its memory while it is written: whatever of it is taken, each has the same, also behind a
// restart.
TEST_F(StagedWrites, EachHasTheSameOfMemoryThatChanges) {
  start(2, 2, kBlocks);
  auto set = open();
  ASSERT_NE(set, nullptr);
  ASSERT_TRUE(set->alloc(kData).ok());
  ASSERT_TRUE(write(*set, raw(kData.start), filled(4096, 9)).ok());
  ASSERT_TRUE(set->commit().ok());
  Bytes memory = filled(600'000, 1);
  int next = 1;
  const auto change = [&] { std::ranges::fill(memory, static_cast<std::byte>(++next)); };
  for (const char name : {'a', 'b'}) brick(name).faults().set_before_transfers(change);
  const Piece piece{raw(kData.start), {{memory.data(), static_cast<uint32_t>(memory.size()), 0}}};
  ASSERT_TRUE(set->try_write(std::span(&piece, 1)).ok());
  const Piece behind{raw(kData.start) + kBlockBytes - 300'000, {{memory.data(), 600'000, 0}}};
  ASSERT_TRUE(set->write(std::span(&behind, 1), Stage::kData).ok());
  EXPECT_GE(next, 4) << "nothing was changed";
  for (const char name : {'a', 'b'}) brick(name).faults().set_before_transfers(nullptr);
  brick('b').restart();
  ASSERT_TRUE(set->commit().ok());
  ASSERT_TRUE(is_in_state(1, ReplicaState::kInSync));  // unless it took too long to come back, it was so all the time
  ASSERT_TRUE(set->close().ok());
  for (const BlockAddress block : {kData.start, block_after(kData.start, 1)})
    EXPECT_EQ(on_brick('a', raw(block), kBlockBytes), on_brick('b', raw(block), kBlockBytes)) << raw(block);
}

// What was not posted anywhere has left nothing that could differ.
TEST_F(StagedWrites, AFastWriteThatIsRefusedAtOnceLeavesNothingToMend) {
  start(2, 2, 0);
  auto set = open();
  ASSERT_NE(set, nullptr);
  ASSERT_TRUE(set->alloc(kData).ok());
  ASSERT_TRUE(set->commit().ok());
  Bytes bytes = filled(4096, 3);
  const Piece nowhere{raw(kData.end()) + kBlockBytes, {{bytes.data(), 4096, 0}}};
  ASSERT_FALSE(set->try_write(std::span(&nowhere, 1)).ok());
  const uint64_t calls = brick('b').faults().calls();
  std::this_thread::sleep_for(milliseconds(600));
  EXPECT_EQ(brick('b').faults().calls(), calls) << "a block is copied";
}

}  // namespace
}  // namespace brickfs
