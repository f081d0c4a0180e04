// SPDX-License-Identifier: Apache-2.0
// Space on the bricks of a set: whose turn it is, bricks of different sizes, one that is away.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "fs/space/space.h"
#include "tests/support/restarting_brick.h"
#include "transport/volume/volume_set.h"

namespace brickfs {
namespace {

constexpr BlockRange kFirstOfAll{BlockAddress{0}, 1};

class StripedSpace : public ::testing::Test {
 protected:
  // A volatile brick for each number of blocks.
  void start(const std::vector<uint64_t>& sizes) {
    std::vector<SetBrick> bricks;
    for (const uint64_t blocks : sizes) {
      bricks_.push_back(std::make_unique<RestartingBrick>(blocks, 0));
      bricks.push_back({std::string(1, static_cast<char>('a' + bricks.size())), bricks_.back()->make_brick()});
    }
    VolumeOptions options;
    options.open.client = ClientId{0x100};
    SetRefusal refusal;
    auto volume = VolumeSet::open(std::move(bricks), options, false, &refusal);
    ASSERT_TRUE(volume.ok()) << refusal.why;
    volume_ = std::move(*volume);
    space_.emplace(*volume_);
    ASSERT_TRUE(space_->adopt_metadata(kFirstOfAll).ok());
    ASSERT_TRUE(space_
                    ->start(std::span(&kFirstOfAll, 1), {},
                            {.durable = [this] { return Lsn{durable_.load()}; },
                             .make_durable = [](const Interruption*) { return Status(); }})
                    .ok());
  }
  // Block after block, as a file that grows; each when every brick has a fresh one again, unless one is away.
  std::vector<uint64_t> take_blocks(uint64_t count) {
    std::vector<uint64_t> of_place(volume_->places());
    for (uint64_t i = 0; i < count; ++i) {
      EXPECT_TRUE(volume_->is_away() || space_->trim().ok());
      const auto runs = space_->allocate(kUnitsPerBlock, goal_);
      EXPECT_TRUE(runs.ok());
      if (!runs.ok()) break;
      for (const UnitRun& run : *runs) {
        of_place[volume_->place_of(block_of(run.address()))] += run.count;
        goal_ = run.end();
        taken_.push_back(run);
      }
    }
    for (uint64_t& units : of_place) units /= kUnitsPerBlock;
    return of_place;
  }
  static bool comes_true(const std::function<bool()>& condition) {
    for (int i = 0; i < 5000 && !condition(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return condition();
  }
  uint64_t free_on(size_t place) { return volume_->member(place).stat()->allocatable_blocks; }

  std::vector<std::unique_ptr<RestartingBrick>> bricks_;
  std::unique_ptr<VolumeSet> volume_;
  std::optional<Space> space_;
  std::atomic<uint64_t> durable_{0};
  uint64_t goal_ = 0;
  std::vector<UnitRun> taken_;
};

TEST_F(StripedSpace, NeighboursAreOnDifferentBricks) {
  start({128, 128, 128});
  const auto blocks = take_blocks(60);
  for (const uint64_t count : blocks) EXPECT_GE(count, 19u);  // the first one keeps a reserve for metadata
  size_t same = 0;
  for (size_t i = 1; i < taken_.size(); ++i) {
    if (volume_->place_of(block_of(taken_[i].address())) == volume_->place_of(block_of(taken_[i - 1].address())))
      ++same;
  }
  EXPECT_LE(same, 1u);
}

TEST_F(StripedSpace, ALargerBrickGetsMore) {
  start({64, 192});
  const auto blocks = take_blocks(80);
  EXPECT_GT(blocks[1], 3 * blocks[0]);  // more than by their sizes: the first one keeps a reserve for metadata
  EXPECT_GT(blocks[0], 15u);
}

TEST_F(StripedSpace, BricksOfDifferentSizesAreUsedToTheFull) {
  start({48, 16, 32});
  const uint64_t units = space_->usage().free_units;
  EXPECT_GT(units, 80 * kUnitsPerBlock);
  for (uint64_t left = units; left > 0;) {
    const uint64_t part = std::min<uint64_t>(left, 777);
    const auto runs = space_->allocate(part, 0);
    ASSERT_TRUE(runs.ok()) << left << " units before the end";
    taken_.insert(taken_.end(), runs->begin(), runs->end());
    left -= part;
  }
  EXPECT_EQ(space_->allocate(1, 0).code(), ENOSPC);
  for (size_t place = 0; place < 3; ++place) EXPECT_EQ(free_on(place), 0u) << place;
  EXPECT_TRUE(space_->allocate_metadata(2).ok()) << "the reserve is there, on the first brick";
  durable_ = 1;
  for (const UnitRun& run : taken_) space_->release(run, Lsn{1});
  space_->on_durable(Lsn{1});
  ASSERT_TRUE(space_->trim().ok());
  EXPECT_GE(free_on(1) + free_on(2), 40u);
}

TEST_F(StripedSpace, MetadataIsOnTheFirstBrick) {
  start({32, 64});
  for (int i = 0; i < 6; ++i) {
    const auto blocks = space_->allocate_metadata(1);
    ASSERT_TRUE(blocks.ok());
    EXPECT_EQ(volume_->place_of(blocks->start), 0u);
  }
}

TEST_F(StripedSpace, ABrickThatIsAwayHoldsUpNoOther) {
  start({64, 64});
  bricks_[1]->faults().refuse(true);
  bricks_[1]->faults().lose();
  ASSERT_TRUE(comes_true([&] { return volume_->member(1).is_away(); }));
  const auto blocks = take_blocks(20);
  EXPECT_EQ(blocks[0], 20u);
  bricks_[1]->faults().refuse(false);
  ASSERT_TRUE(comes_true([&] { return !volume_->is_away(); }));
  EXPECT_GT(take_blocks(20)[1], 0u);
}

}  // namespace
}  // namespace brickfs
