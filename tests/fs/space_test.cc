// SPDX-License-Identifier: Apache-2.0
#include "fs/space/space.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <random>
#include <set>
#include <thread>

#include "fs/base/block_ranges.h"
#include "tests/support/embedded_volume.h"
#include "tests/support/eventually.h"
#include "tests/support/volume_io.h"
#include "transport/base/zero.h"
#include "transport/brick/limits.h"

namespace brickfs {
namespace {

using namespace std::chrono_literals;

constexpr BlockRange kSuperblock{BlockAddress{0}, 1};
constexpr uint64_t kLeastMetadata = 9;  // blocks that a closed volume has: those in use, and its reserve

// A Space on an embedded brick whose journal is a number.
class SpaceTest : public ::testing::Test {
 protected:
  void start(uint64_t brick_blocks) {
    brick_.emplace(brick_blocks * kBlockBytes);
    volume_ = brick_->open();
    ASSERT_TRUE(volume_->alloc(kSuperblock).ok());
    space_.emplace(*volume_);
    ASSERT_TRUE(space_->adopt_metadata(kSuperblock).ok());
    ASSERT_TRUE(space_->start(std::span(&kSuperblock, 1), {}, hooks()).ok());
  }
  Space::Hooks hooks() {
    return {.durable = [this] { return Lsn{durable_.load()}; },
            .make_durable =
                [this](const Interruption*) {
                  durable_ = last_.load();
                  space_->on_durable(Lsn{durable_.load()});
                  return Status();
                }};
  }
  void make_all_durable() { ASSERT_TRUE(hooks().make_durable(nullptr).ok()); }
  uint64_t blocks_on_brick() { return volume_->stat()->volume_used_blocks; }
  // The supply thread does its work soon, but not at once.
  bool blocks_become(uint64_t blocks) {
    for (int i = 0; i < 500 && blocks_on_brick() != blocks; ++i) std::this_thread::sleep_for(10ms);
    return blocks_on_brick() == blocks;
  }
  std::vector<UnitRun> allocate(uint64_t units, uint64_t goal = 0) {
    auto runs = space_->allocate(units, goal);
    EXPECT_TRUE(runs.ok());
    return runs.ok() ? *runs : std::vector<UnitRun>();
  }
  void release(const std::vector<UnitRun>& runs) {
    const Lsn lsn{++last_};
    for (const UnitRun& run : runs) space_->release(run, lsn);
  }

  std::optional<EmbeddedVolume> brick_;
  std::unique_ptr<VolumeSet> volume_;
  std::optional<Space> space_;
  std::atomic<uint64_t> last_{0};
  std::atomic<uint64_t> durable_{0};
};

TEST_F(SpaceTest, AGrowingFileStaysInOnePiece) {
  start(256);
  UnitRun file = allocate(256).front();
  for (int i = 0; i < 30; ++i) {
    for (const UnitRun& run : allocate(256, file.end())) {
      ASSERT_EQ(run.first, file.end());
      file.count += run.count;
    }
  }
}

TEST_F(SpaceTest, WhatTheKernelHasWrittenGetsRoomFirst) {
  start(64);
  std::atomic<int> told = 0;
  const uint64_t reserve = 4 * kUnitsPerBlock;
  space_->reserve_for_writeback(reserve, [&] { ++told; });
  while (space_->usage().free_units >= reserve + 2 * kUnitsPerBlock) allocate(kUnitsPerBlock);
  EXPECT_EQ(told, 0);
  EXPECT_FALSE(space_->is_short_for_writeback());

  Interruption interrupted;
  interrupted.raise();
  EXPECT_EQ(space_->allocate(3 * kUnitsPerBlock, 0, &interrupted).code(), EINTR) << "others wait";
  EXPECT_EQ(told, 1);
  EXPECT_TRUE(space_->is_short_for_writeback());
  // But for blocks, which are fetched ahead.
  const auto goes_at_once = [&](uint64_t units, Space::For what) {
    return testing::eventually([&] { return space_->allocate(units, 0, &interrupted, what).ok(); });
  };
  EXPECT_TRUE(goes_at_once(3 * kUnitsPerBlock, Space::For::kWriteback)) << "it does not wait";
  space_->settle_writeback();
  EXPECT_TRUE(goes_at_once(1, Space::For::kAnything)) << "now the rest is for all, and nobody waits";
  EXPECT_EQ(told, 1);
}

TEST_F(SpaceTest, WithRoomAgainTheKernelIsToldAgain) {
  start(64);
  std::atomic<int> told = 0;
  const uint64_t reserve = 4 * kUnitsPerBlock;
  space_->reserve_for_writeback(reserve, [&] {
    ++told;
    space_->settle_writeback();
  });
  for (int round = 1; round <= 2; ++round) {
    std::vector<std::vector<UnitRun>> taken;
    while (space_->usage().free_units >= reserve) taken.push_back(allocate(kUnitsPerBlock));
    EXPECT_EQ(told, round);
    for (const auto& runs : taken) release(runs);
    make_all_durable();
    allocate(1);
    EXPECT_FALSE(space_->is_short_for_writeback());
  }
}

TEST_F(SpaceTest, ALargeRequestIsOneRun) {
  start(256);
  EXPECT_EQ(allocate(5000).size(), 1u);
}

TEST_F(SpaceTest, SmallFilesShareABlock) {
  start(256);
  const uint64_t before = blocks_on_brick();
  std::set<uint64_t> blocks;
  for (int i = 0; i < 500; ++i) blocks.insert(allocate(1).front().first / kUnitsPerBlock);
  EXPECT_EQ(blocks.size(), 1u);
  EXPECT_TRUE(blocks_become(before + 1));
}

TEST_F(SpaceTest, FreedUnitsAreReusedOnlyWhenThatIsDurable) {
  start(256);
  const std::vector<UnitRun> keeper = allocate(1);
  const std::vector<UnitRun> old = allocate(300, keeper.front().end());
  release(old);
  for (int i = 0; i < 50; ++i) {
    for (const UnitRun& run : allocate(2, old.front().first)) {
      EXPECT_TRUE(run.end() <= old.front().first || run.first >= old.back().end());
    }
  }
  make_all_durable();
  EXPECT_EQ(allocate(2, old.front().first).front(), (UnitRun{old.front().first, 2}));
}

TEST_F(SpaceTest, AReleaseThatIsAlreadyDurableIsFreeAtOnce) {
  start(256);
  const std::vector<UnitRun> keeper = allocate(1);
  const std::vector<UnitRun> old = allocate(10, keeper.front().end());
  durable_ = last_ = 5;
  space_->on_durable(Lsn{5});
  space_->release(old.front(), Lsn{5});
  EXPECT_EQ(allocate(10, old.front().first).front(), old.front());
}

TEST_F(SpaceTest, EmptyAgainItHasAsManyBlocksAsAtTheBeginning) {
  start(512);
  const uint64_t before = blocks_on_brick();
  const SpaceUsage usage = space_->usage();
  std::vector<UnitRun> all;
  for (int i = 0; i < 40; ++i) {
    const auto runs = allocate(i % 2 == 0 ? 3 : 2500);
    all.insert(all.end(), runs.begin(), runs.end());
  }
  EXPECT_GT(blocks_on_brick(), before);
  release(all);
  EXPECT_EQ(space_->usage().free_units, usage.free_units) << "what is being freed counts as free";
  make_all_durable();
  EXPECT_TRUE(blocks_become(before)) << blocks_on_brick() << " instead of " << before;
  EXPECT_EQ(space_->usage().free_units, usage.free_units);
  EXPECT_EQ(space_->usage().total_units, usage.total_units);
}

TEST_F(SpaceTest, TrimWaitsUntilAllFreeBlocksAreTheBricks) {
  start(512);
  const uint64_t before = blocks_on_brick();
  const auto runs = allocate(20'000);
  release(runs);
  make_all_durable();
  ASSERT_TRUE(space_->trim().ok());
  EXPECT_EQ(blocks_on_brick(), before);
}

TEST_F(SpaceTest, StopGivesBackAllButTheReserveOfAClosedVolume) {
  start(256);
  allocate(1);
  ASSERT_TRUE(space_->stop().ok());
  EXPECT_EQ(blocks_on_brick(), kLeastMetadata + 1);  // and the file's
}

// The next one has them, whoever took the rest of the brick meanwhile; and nothing of them stays if it is not needed.
TEST_F(SpaceTest, WhatAClosedVolumeKeptIsTheNextOnesReserve) {
  start(64);
  ASSERT_TRUE(space_->stop().ok());
  const std::vector<BlockRange> kept = {{BlockAddress{kBlockBytes}, kLeastMetadata - 1}};
  const BlockRange others{BlockAddress{1000 * kBlockBytes}, 64 - kLeastMetadata};
  ASSERT_TRUE(volume_->alloc(others).ok());
  const std::vector<BlockRange> in_use = {kSuperblock, others};
  Space again(*volume_);
  ASSERT_TRUE(again.adopt_metadata(kSuperblock).ok());
  ASSERT_TRUE(again.start(in_use, {.blocks = kept, .are_zeros = true}, hooks()).ok());
  for (uint64_t i = 0; i + 1 < kLeastMetadata; ++i) EXPECT_TRUE(again.allocate_metadata(1).ok()) << i;
  EXPECT_FALSE(again.allocate_metadata(1).ok());
}

TEST_F(SpaceTest, BlocksOfAKilledOneAreMadeZerosForTheReserve) {
  start(64);
  ASSERT_TRUE(space_->stop().ok());
  ASSERT_TRUE(volume_->alloc({BlockAddress{1000 * kBlockBytes}, 64 - kLeastMetadata}).ok());
  const BlockRange left{BlockAddress{kBlockBytes}, kLeastMetadata - 1};
  std::vector<std::byte> bytes(kBlockBytes, std::byte{0xee});
  for (uint64_t i = 0; i < left.count; ++i) {
    const Piece piece{raw(block_after(left.start, i)), {{bytes.data(), static_cast<uint32_t>(bytes.size()), 0}}};
    ASSERT_TRUE(volume_->write({&piece, 1}, Stage::kData).ok());
  }
  const std::vector<BlockRange> in_use = {kSuperblock, {BlockAddress{1000 * kBlockBytes}, 64 - kLeastMetadata}};
  Space again(*volume_);
  ASSERT_TRUE(again.adopt_metadata(kSuperblock).ok());
  ASSERT_TRUE(again.start(in_use, {.blocks = {&left, 1}, .are_zeros = false}, hooks()).ok());
  for (uint64_t i = 0; i < left.count; ++i) {
    const auto block = again.allocate_metadata(1);
    ASSERT_TRUE(block.ok()) << i;
    const Piece piece{raw(block->start), {{bytes.data(), static_cast<uint32_t>(bytes.size()), 0}}};
    ASSERT_TRUE(volume_->read({&piece, 1}).ok());
    EXPECT_TRUE(is_zero(bytes)) << "the journal takes its blocks for zeros";
  }
}

TEST_F(SpaceTest, WithRoomOnTheBrickUnusedBlocksGoBack) {
  start(256);
  ASSERT_TRUE(space_->stop().ok());
  const std::vector<BlockRange> unused = {{BlockAddress{kBlockBytes}, kLeastMetadata - 1},
                                          {BlockAddress{500 * kBlockBytes}, 30},
                                          {BlockAddress{limits::kVolumeBytes}, 3}};
  ASSERT_TRUE(volume_->alloc(unused[1]).ok());
  ASSERT_TRUE(volume_->alloc(unused[2]).ok());
  for (const bool are_zeros : {false, true}) {
    Space again(*volume_);
    ASSERT_TRUE(again.adopt_metadata(kSuperblock).ok());
    const std::vector<BlockRange> listed = subtract(*volume_->list(), {&kSuperblock, 1});
    ASSERT_TRUE(again.start(std::span(&kSuperblock, 1), {.blocks = listed, .are_zeros = are_zeros}, hooks()).ok());
    ASSERT_TRUE(again.stop().ok());
    EXPECT_EQ(blocks_on_brick(), kLeastMetadata) << are_zeros;
  }
}

// A soft mount gives a call up, and nobody knows whether it was carried out: its blocks go back once the brick answers
// again.
class SpaceOnASoftMount : public ::testing::TestWithParam<BrickFaults::When> {};

TEST_P(SpaceOnASoftMount, KeepsNoBlockOfAnUnansweredCall) {
  for (uint64_t nth = 1; nth <= 12; ++nth) {
    SCOPED_TRACE(nth);
    RestartingBrick brick(64, 0);
    VolumeOptions options = testing::remote_options();
    options.soft = 10ms;
    const auto volume = std::move(*VolumeSet::open(brick.make_brick(), options, nullptr));
    ASSERT_TRUE(volume->alloc(kSuperblock).ok());
    Space space(*volume);
    ASSERT_TRUE(space.adopt_metadata(kSuperblock).ok());
    ASSERT_TRUE(
        space
            .start(std::span(&kSuperblock, 1), {},
                   {.durable = [] { return Lsn{1}; }, .make_durable = [](const Interruption*) { return Status(); }})
            .ok());

    brick.faults().refuse(true);
    brick.faults().lose_at(nth, GetParam());
    const auto work = [&] {
      if (const auto runs = space.allocate(3 * kUnitsPerBlock, 0); runs.ok()) {
        for (const UnitRun& run : *runs) space.release(run, Lsn{1});
      }
      if (const auto blocks = space.allocate_metadata(2); blocks.ok()) static_cast<void>(space.free_metadata(*blocks));
      space.on_durable(Lsn{1});
    };
    while (volume->link_state().kind == LinkState::Kind::kConnected) work();
    work();
    std::this_thread::sleep_for(30ms);  // longer than calls under way are patient
    brick.faults().refuse(false);
    while (volume->link_state().kind != LinkState::Kind::kConnected) std::this_thread::sleep_for(1ms);

    space.on_durable(Lsn{1});
    ASSERT_TRUE(space.stop().ok());
    EXPECT_EQ(volume->stat()->volume_used_blocks, kLeastMetadata);
  }
}

INSTANTIATE_TEST_SUITE_P(TheCallIsLost, SpaceOnASoftMount,
                         ::testing::Values(BrickFaults::When::kBefore, BrickFaults::When::kAfter));

TEST_F(SpaceTest, UsageIsExactToTheUnit) {
  for (const uint64_t blocks : {4u, 16u, 32u, 100u}) {
    start(blocks);
    const SpaceUsage empty = space_->usage();
    EXPECT_EQ(empty.free_units, empty.total_units);
    EXPECT_GE(empty.total_units * 3, blocks * kUnitsPerBlock) << "most of even a small volume is for data";
    uint64_t taken = 0;
    for (uint64_t step = 1000; step > 0; step = step / 3) {
      while (true) {
        const auto runs = space_->allocate(step, 0);
        if (!runs.ok()) {
          EXPECT_EQ(runs.code(), ENOSPC);
          break;
        }
        taken += step;
        ASSERT_EQ(space_->usage().free_units, empty.free_units - taken);
      }
    }
    EXPECT_EQ(taken, empty.free_units);
    EXPECT_EQ(space_->usage().free_units, 0u);
    space_.reset();
    volume_.reset();
  }
}

TEST_F(SpaceTest, ShortOfSpaceItMakesFreedUnitsDurable) {
  start(32);
  const uint64_t all = space_->usage().free_units;
  const auto runs = allocate(all);
  EXPECT_EQ(space_->allocate(1, 0).code(), ENOSPC);
  release(runs);
  EXPECT_EQ(space_->usage().free_units, all);
  EXPECT_EQ(space_->allocate(all + 1, 0).code(), ENOSPC);
  EXPECT_FALSE(allocate(all).empty());
}

TEST_F(SpaceTest, MetadataHasItsReserveOnAFullVolume) {
  start(32);
  allocate(space_->usage().free_units);
  // Others may have taken what the brick had.
  uint64_t address = uint64_t{1} << 40;
  while (volume_->alloc({BlockAddress{address}, 1}).ok()) address += kBlockBytes;
  std::vector<BlockRange> blocks;
  for (int i = 0; i < 3; ++i) {
    const auto block = space_->allocate_metadata(1);
    ASSERT_TRUE(block.ok()) << i;
    blocks.push_back(*block);
  }
  EXPECT_EQ(space_->usage().free_units, 0u);
  for (const BlockRange& block : blocks) EXPECT_TRUE(space_->free_metadata(block).ok());
  EXPECT_EQ(space_->allocate(1, 0).code(), ENOSPC) << "the reserve is not for data";
}

TEST_F(SpaceTest, TheReserveGrowsWithTheMetadata) {
  start(128);
  const uint64_t before = space_->usage().free_units;
  space_->set_metadata_bytes(10 * kBlockBytes);
  EXPECT_EQ(space_->usage().free_units, before - 20 * kUnitsPerBlock);
  space_->set_metadata_bytes(0);
  EXPECT_EQ(space_->usage().free_units, before);
}

TEST_F(SpaceTest, AdoptRefusesWhatIsInUseOrNotThere) {
  start(64);
  Space again(*volume_);
  ASSERT_TRUE(again.adopt_metadata({BlockAddress{0}, 2}).ok());
  EXPECT_EQ(again.adopt({kUnitsPerBlock, 1}).code(), EUCLEAN);
  ASSERT_TRUE(again.adopt({2 * kUnitsPerBlock, 7}).ok());
  EXPECT_EQ(again.adopt({2 * kUnitsPerBlock + 6, 1}).code(), EUCLEAN);
  EXPECT_EQ(again.adopt_metadata({BlockAddress{2 * kBlockBytes}, 1}).code(), EUCLEAN);
  const BlockRange listed{BlockAddress{0}, 2};
  EXPECT_EQ(again.start(std::span(&listed, 1), {}, hooks()).code(), EUCLEAN) << "block 2 is not on the brick";
}

// Random work against a model: no unit twice, none reused too early, nothing lost.
TEST_F(SpaceTest, RandomWorkLosesAndDoublesNothing) {
  start(96);
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  const uint64_t blocks_before = blocks_on_brick();
  const uint64_t all = space_->usage().free_units;
  std::vector<std::vector<UnitRun>> files;
  std::set<uint64_t> used;   // by files
  std::set<uint64_t> freed;  // not durably
  uint64_t in_use = 0;
  const auto each_unit = [](const std::vector<UnitRun>& runs, auto&& visit) {
    for (const UnitRun& run : runs) {
      for (uint64_t unit = run.first; unit < run.end(); ++unit) visit(unit);
    }
  };
  for (int round = 0; round < 3000; ++round) {
    const unsigned kind = random() % 100;
    if (kind < 55) {
      const uint64_t units = kind < 45 ? 1 + random() % 40 : 1 + random() % 3000;
      const uint64_t goal = files.empty() || random() % 2 == 0 ? 0 : files[random() % files.size()].back().end();
      const uint64_t durable_before = durable_;
      const auto runs = space_->allocate(units, goal);
      if (durable_ != durable_before) freed.clear();
      ASSERT_EQ(runs.code(), units <= all - in_use ? 0 : ENOSPC);
      if (!runs.ok()) continue;
      uint64_t got = 0;
      each_unit(*runs, [&](uint64_t unit) {
        ++got;
        ASSERT_TRUE(used.insert(unit).second) << "unit twice";
        ASSERT_FALSE(freed.contains(unit)) << "freed not durably";
      });
      ASSERT_EQ(got, units);
      in_use += units;
      files.push_back(*runs);
    } else if (kind < 97 && !files.empty()) {
      std::swap(files[random() % files.size()], files.back());
      const bool discard = random() % 4 == 0;
      each_unit(files.back(), [&](uint64_t unit) {
        used.erase(unit);
        --in_use;
        if (!discard) freed.insert(unit);
      });
      if (discard) {
        for (const UnitRun& run : files.back()) space_->discard(run);
      } else {
        release(files.back());
      }
      files.pop_back();
    } else {
      make_all_durable();
      freed.clear();
    }
    ASSERT_EQ(space_->usage().free_units, all - in_use);
  }
  for (const auto& runs : files) release(runs);
  make_all_durable();
  EXPECT_EQ(space_->usage().free_units, all);
  ASSERT_TRUE(space_->trim().ok());
  EXPECT_EQ(blocks_on_brick(), blocks_before);
}

TEST_F(SpaceTest, ManyThreadsAtOnce) {
  start(64);
  const uint64_t all = space_->usage().free_units;
  std::vector<std::thread> threads;
  std::atomic<uint64_t> refused{0};
  for (unsigned worker = 0; worker < 4; ++worker) {
    threads.emplace_back([&, worker] {
      std::mt19937 random(worker);
      std::vector<std::vector<UnitRun>> mine;
      for (int round = 0; round < 400; ++round) {
        auto runs = space_->allocate(1 + random() % 3000, 0);
        if (!runs.ok()) ++refused;
        if (runs.ok()) mine.push_back(*runs);
        if (mine.empty() || (runs.ok() && random() % 2 == 0)) continue;
        release(mine.back());
        mine.pop_back();
      }
      for (const auto& runs : mine) release(runs);
    });
  }
  for (std::thread& thread : threads) thread.join();
  make_all_durable();
  EXPECT_EQ(space_->usage().free_units, all);
  EXPECT_GT(refused, 0u) << "the volume was never full";
}

TEST_F(SpaceTest, LentBlocksAreNobodysAndCountAsFree) {
  start(256);
  const uint64_t free = space_->usage().free_units;
  std::vector<UnitRun> lent;
  for (int i = 0; i < 500 && lent.size() < 8; ++i) {
    for (const UnitRun& run : space_->lend(8 - lent.size())) {
      EXPECT_EQ(run.count, kUnitsPerBlock);
      EXPECT_EQ(run.first % kUnitsPerBlock, 0u);
      lent.push_back(run);
    }
    std::this_thread::sleep_for(10ms);
  }
  ASSERT_EQ(lent.size(), 8u);
  EXPECT_EQ(space_->usage().free_units, free);
  EXPECT_EQ(space_->lent_units(), 8 * kUnitsPerBlock);
  const auto touches_lent = [&](const UnitRun& run) {
    return std::ranges::any_of(
        lent, [&](const UnitRun& other) { return run.first < other.end() && other.first < run.end(); });
  };
  for (int i = 0; i < 100; ++i)
    for (const UnitRun& run : allocate(200)) EXPECT_FALSE(touches_lent(run));
  const uint64_t left = space_->usage().free_units;
  space_->keep_lent({lent[0].first, 100});
  EXPECT_EQ(space_->usage().free_units, left - 100) << "a file's";
  space_->take_back({lent[0].first + 100, kUnitsPerBlock - 100});
  EXPECT_EQ(space_->usage().free_units, left - 100);
  EXPECT_EQ(allocate(200, lent[0].first + 100).front().first, lent[0].first + 100) << "free again";
  EXPECT_NE(space_->stop().code(), 0) << "there are lent ones yet: it is no orderly end";
}

TEST_F(SpaceTest, NothingIsLentOfLittleRoom) {
  start(256);
  while (space_->usage().free_units > 40 * kUnitsPerBlock) allocate(kUnitsPerBlock);
  uint64_t lent = 0;
  for (int i = 0; i < 50; ++i, std::this_thread::sleep_for(5ms)) lent += space_->lend(4).size();
  EXPECT_LE(lent, 8u);
  EXPECT_GE((space_->usage().free_units - space_->lent_units()) * kUnitBytes, 64 * kMiB);
}

TEST_F(SpaceTest, WhoeverIsShortHasLentUnitsBackFirst) {
  start(256);
  std::vector<UnitRun> lent;
  for (int i = 0; i < 500 && lent.size() < 8; ++i, std::this_thread::sleep_for(10ms))
    for (const UnitRun& run : space_->lend(8 - lent.size())) lent.push_back(run);
  ASSERT_EQ(lent.size(), 8u);
  int asked = 0;
  space_->ask_back_by([&](const Interruption*) {
    ++asked;
    for (const UnitRun& run : lent) space_->take_back(run);
    lent.clear();
  });
  while (space_->usage().free_units > 0) allocate(std::min(space_->usage().free_units, kUnitsPerBlock));
  EXPECT_EQ(asked, 1);
  EXPECT_EQ(space_->allocate(1, 0).code(), ENOSPC);
  EXPECT_EQ(asked, 1) << "nothing is lent any more";
  EXPECT_TRUE(space_->lend(1).empty());
}

}  // namespace
}  // namespace brickfs
