// SPDX-License-Identifier: Apache-2.0
// Commits of a VolumeClient, and durable bricks that restart under it.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <map>
#include <random>
#include <thread>

#include "tests/support/brick_contract.h"
#include "tests/support/volume_io.h"
#include "transport/volume/volume_client.h"

namespace brickfs {
namespace {

using std::chrono::milliseconds;
using testing::blocks;
using testing::Bytes;
using testing::eventually;
using testing::open_volume;
using testing::read;
using testing::remote_options;
using testing::write;

Bytes of(char c, size_t length = 4096) { return Bytes(length, static_cast<std::byte>(c)); }

TEST(VolumeCommit, NamesWhatWasWrittenStageByStage) {
  for (const bool embedded : {false, true}) {
    RestartingBrick brick(8, 8);
    VolumeOptions options = remote_options();
    options.embedded = embedded;
    auto volume = open_volume(brick, options);
    ASSERT_TRUE(volume->alloc(blocks(0, 4)).ok());
    ASSERT_TRUE(write(*volume, 0, of('s'), Stage::kSuperblock).ok());
    ASSERT_TRUE(write(*volume, 2 * kMiB, of('j'), Stage::kJournal).ok());
    ASSERT_TRUE(write(*volume, 4 * kMiB + 4096, of('a')).ok());
    ASSERT_TRUE(write(*volume, 4 * kMiB, of('b')).ok());
    ASSERT_TRUE(write(*volume, 4 * kMiB + 65536, of('c')).ok());
    ASSERT_TRUE(volume->commit().ok());
    const auto commits = brick.faults().commits();
    ASSERT_EQ(commits.size(), 1u);
    ASSERT_EQ(commits[0].size(), 4u);
    const auto same = [&](size_t i, uint64_t address, uint64_t length, bool after) {
      EXPECT_EQ(commits[0][i].address, address);
      EXPECT_EQ(commits[0][i].length_bytes, length);
      EXPECT_EQ(commits[0][i].after_previous, after);
    };
    same(0, 4 * kMiB, 8192, false);
    same(1, 4 * kMiB + 65536, 4096, false);
    same(2, 2 * kMiB, 4096, true);
    same(3, 0, 4096, true);
    ASSERT_TRUE(volume->commit().ok());
    EXPECT_TRUE(brick.faults().commits()[1].empty()) << "nothing is named twice";
  }
}

TEST(VolumeCommit, AFailedCommitForgetsNothing) {
  RestartingBrick brick(8, 8);
  auto volume = open_volume(brick);
  ASSERT_TRUE(volume->alloc(blocks(0, 2)).ok());
  ASSERT_TRUE(write(*volume, 0, of('a')).ok());
  brick.faults().answer(BrickCall::kCommit, ENOSPC);
  EXPECT_EQ(volume->commit().code(), ENOSPC);
  ASSERT_TRUE(write(*volume, 8192, of('b')).ok());
  ASSERT_TRUE(volume->commit().ok());
  EXPECT_EQ(brick.faults().commits().back().size(), 2u);
}

TEST(VolumeCommit, FreedBlocksAreNotNamed) {
  RestartingBrick brick(8, 8);
  auto volume = open_volume(brick);
  ASSERT_TRUE(volume->alloc(blocks(0, 2)).ok());
  ASSERT_TRUE(write(*volume, 2 * kMiB - 4096, of('a')).ok());
  ASSERT_TRUE(write(*volume, 2 * kMiB, of('a')).ok());
  ASSERT_TRUE(volume->free(blocks(1, 1)).ok());
  ASSERT_TRUE(volume->commit().ok());
  ASSERT_EQ(brick.faults().commits().back().size(), 1u);
  EXPECT_EQ(brick.faults().commits().back()[0].length_bytes, 4096u);
}

// What a restart of the brick would take, if nothing were written to it again.
TEST(VolumeCommit, WhatItHasNotCoveredIsKnownBlockByBlock) {
  RestartingBrick brick(8, 8);
  auto volume = open_volume(brick);
  const auto uncommitted = [&] { return volume->uncommitted_blocks().ranges(); };
  ASSERT_TRUE(volume->alloc(blocks(0, 4)).ok());
  EXPECT_EQ(uncommitted(), (std::vector<BlockRange>{blocks(0, 4)}));
  ASSERT_TRUE(volume->commit().ok());
  EXPECT_TRUE(uncommitted().empty());
  ASSERT_TRUE(write(*volume, 2 * kMiB, of('a')).ok());
  brick.faults().answer(BrickCall::kCommit, EIO);
  EXPECT_EQ(volume->commit().code(), EIO);
  ASSERT_TRUE(write(*volume, 8 * kMiB - 4096, of('b')).ok());
  EXPECT_EQ(uncommitted(), (std::vector<BlockRange>{blocks(1, 1), blocks(3, 1)}));
  ASSERT_TRUE(volume->commit().ok());
  ASSERT_TRUE(volume->free(blocks(2, 1)).ok());
  EXPECT_EQ(uncommitted(), (std::vector<BlockRange>{blocks(2, 1)}));
}

TEST(VolumeCommit, WritersWaitForRoomAndGetIt) {
  RestartingBrick brick(16, 16);
  VolumeOptions options = remote_options();
  options.replay_bytes = kMiB;
  std::atomic<int> wanted = 0;
  options.on_commit_wanted = [&] { ++wanted; };
  auto volume = open_volume(brick, options);
  ASSERT_TRUE(volume->alloc(blocks(0, 8)).ok());
  std::atomic<bool> stop = false;
  std::thread committer([&] {
    int seen = 0;
    while (!stop) {
      if (wanted != seen) {
        seen = wanted;
        EXPECT_TRUE(write(*volume, 0, of('j'), Stage::kJournal).ok()) << "never waits for room";
        EXPECT_TRUE(volume->commit().ok());
      }
      std::this_thread::sleep_for(milliseconds(1));
    }
  });
  std::vector<std::thread> writers;
  for (uint64_t t = 0; t < 3; ++t) {
    writers.emplace_back([&, t] {
      for (int i = 0; i < 20; ++i) ASSERT_TRUE(write(*volume, (2 + 2 * t) * kMiB, of('w', 300'000)).ok());
    });
  }
  for (std::thread& writer : writers) writer.join();
  // Larger than the bound as a whole.
  EXPECT_TRUE(write(*volume, 8 * kMiB, of('x', 3 * kMiB)).ok());
  stop = true;
  committer.join();
  EXPECT_GT(wanted, 3);
}

// A block whose neighbour under the same handle was written is unmapped with it: what it has must be committed before.
// Not all blocks need share a handle, as the pool's thread may be at a frame when they are allocated; some do.
TEST(VolumeCommit, ComesBeforeAFreeThatUnmapsWrittenNeighbours) {
  RestartingBrick brick(8, 8);
  auto volume = open_volume(brick);
  ASSERT_TRUE(volume->alloc(blocks(0, 8)).ok());
  volume->map_ahead(blocks(0, 8));
  for (uint64_t block = 0; block < 8; block += 2) ASSERT_TRUE(write(*volume, block * kBlockBytes, of('a')).ok());
  for (uint64_t block = 1; block < 8; block += 2) ASSERT_TRUE(volume->free(blocks(block, 1)).ok());
  ASSERT_EQ(brick.faults().commits().size(), 1u);
  EXPECT_EQ(brick.faults().commits()[0].size(), 4u);
  for (uint64_t block = 0; block < 8; block += 2) EXPECT_EQ(*read(*volume, block * kBlockBytes, 4096), of('a'));
}

// If the client dies between the two, what refers must not be there without what it refers to.
TEST(VolumeReplay, WritesWhatRefersBehindWhatItRefersTo) {
  RestartingBrick brick(8, 8);
  auto volume = open_volume(brick);
  ASSERT_TRUE(volume->alloc(blocks(0, 4)).ok());
  ASSERT_TRUE(write(*volume, 2 * kMiB, of('j'), Stage::kJournal).ok());
  ASSERT_TRUE(write(*volume, 4 * kMiB, of('d')).ok());
  const uint64_t before = brick.faults().calls(BrickCall::kTransfer);
  brick.restart();
  EXPECT_EQ(*read(*volume, 2 * kMiB, 4096), of('j'));
  EXPECT_EQ(*read(*volume, 4 * kMiB, 4096), of('d'));
  EXPECT_EQ(brick.faults().calls(BrickCall::kTransfer) - before, 2u + 2u) << "a batch for each stage, and the reads";
}

TEST(VolumeReplay, NothingWrittenIsLost) {
  RestartingBrick brick(8, 16);
  auto volume = open_volume(brick);
  ASSERT_TRUE(volume->alloc(blocks(0, 4)).ok());
  ASSERT_TRUE(write(*volume, 0, of('a', 3 * kMiB)).ok());
  ASSERT_TRUE(volume->commit().ok());
  ASSERT_TRUE(write(*volume, 4096, of('b')).ok());
  ASSERT_TRUE(write(*volume, 6144, of('c')).ok());
  brick.restart();
  Bytes expected = of('a', 16384);
  std::memset(expected.data() + 4096, 'b', 2048);
  std::memset(expected.data() + 6144, 'c', 4096);
  EXPECT_EQ(*read(*volume, 0, 16384), expected);
  ASSERT_TRUE(volume->commit().ok());
  brick.restart();
  EXPECT_EQ(*read(*volume, 0, 16384), expected);
}

TEST(VolumeReplay, BlocksAreAsTheClientKnowsThem) {
  RestartingBrick brick(8, 16);
  auto volume = open_volume(brick);
  ASSERT_TRUE(volume->alloc(blocks(0, 4)).ok());
  for (uint64_t i = 0; i < 4; ++i) ASSERT_TRUE(write(*volume, i * kBlockBytes, of('a')).ok());
  ASSERT_TRUE(volume->commit().ok());
  brick.remember_commits();
  ASSERT_TRUE(volume->free(blocks(1, 1)).ok());
  ASSERT_TRUE(volume->free(blocks(2, 1)).ok());
  ASSERT_TRUE(volume->alloc(blocks(2, 1)).ok());
  ASSERT_TRUE(volume->alloc(blocks(9, 2)).ok());
  ASSERT_TRUE(write(*volume, 9 * kBlockBytes, of('n')).ok());
  brick.restart_from_commit();  // knows of no alloc and no free
  EXPECT_EQ(*volume->list(), (std::vector{blocks(0, 1), blocks(2, 2), blocks(9, 2)}));
  EXPECT_EQ(*read(*volume, 2 * kBlockBytes, 4096), Bytes(4096)) << "a block given back and taken again is zero";
  EXPECT_EQ(*read(*volume, 3 * kBlockBytes, 4096), of('a'));
  EXPECT_EQ(*read(*volume, 9 * kBlockBytes, 4096), of('n'));
}

TEST(VolumeReplay, MissingCommittedBlocksAreFinal) {
  RestartingBrick brick(8, 16);
  auto volume = open_volume(brick);
  brick.remember_commits();
  brick.faults().set_after_commit(nullptr);  // so it will come back as it is now: empty
  ASSERT_TRUE(volume->alloc(blocks(0, 1)).ok());
  ASSERT_TRUE(volume->commit().ok());
  brick.restart_from_commit();
  EXPECT_EQ(read(*volume, 0, 10).code(), EIO);
  EXPECT_EQ(volume->link_state().kind, LinkState::Kind::kFailed);
}

TEST(VolumeReplay, WithoutRoomForItItIsSaid) {
  RestartingBrick brick(8, 16);
  auto volume = open_volume(brick);
  ASSERT_TRUE(volume->commit().ok());
  brick.remember_commits();
  ASSERT_TRUE(volume->alloc(blocks(0, 1)).ok());
  ASSERT_TRUE(write(*volume, 0, of('a')).ok());
  brick.faults().answer_all(BrickCall::kAlloc, ENOSPC);
  brick.restart_from_commit();
  EXPECT_TRUE(eventually([&] {
    return volume->link_state().text.find("cannot be written there again") != std::string::npos;
  })) << volume->link_state().text;
  brick.faults().answer_all(BrickCall::kAlloc, 0);
  EXPECT_EQ(*read(*volume, 0, 4096), of('a'));
}

// What is not committed is left in the brick's memory, whose order of writing it is not known to.
TEST(VolumeReplay, WhoGivesUpEndsAsByACrash) {
  RestartingBrick brick(8, 16);
  for (const bool committed : {true, false}) {
    auto volume = open_volume(brick);
    ASSERT_TRUE(volume->list()->empty() ? volume->alloc(blocks(0, 1)).ok() : true);
    ASSERT_TRUE(write(*volume, 0, of(committed ? 'a' : 'b')).ok());
    if (committed) {
      ASSERT_TRUE(volume->commit().ok());
    }
    volume->interrupt();
    EXPECT_EQ(volume->close().code(), committed ? 0 : ECANCELED);
    volume.reset();
    EXPECT_EQ(open_volume(brick)->session().suspect_blocks, committed ? 0u : 1u);
  }
  brick.restart();
  EXPECT_EQ(*read(*open_volume(brick), 0, 4096), of('a'));
}

TEST(VolumeReplay, WorksWithLessMemoryThanWasWritten) {
  RestartingBrick brick(3, 24);
  auto volume = open_volume(brick);
  ASSERT_TRUE(volume->alloc(blocks(0, 10)).ok());
  ASSERT_TRUE(volume->commit().ok());
  for (uint64_t i = 0; i < 3; ++i) ASSERT_TRUE(write(*volume, i * kBlockBytes, of('x')).ok());
  // The session is lost, so what it had mapped is free, and more is written before a commit.
  brick.faults().lose();
  for (uint64_t i = 3; i < 6; ++i) ASSERT_TRUE(write(*volume, i * kBlockBytes, of('y')).ok());
  brick.restart();
  for (uint64_t i = 0; i < 6; ++i) EXPECT_EQ(*read(*volume, i * kBlockBytes, 4096), of(i < 3 ? 'x' : 'y'));
}

TEST(VolumeReplay, ARestartInTheMiddleOfAReplay) {
  for (uint64_t nth = 1; nth <= 8; ++nth) {
    SCOPED_TRACE(nth);
    RestartingBrick brick(8, 16);
    auto volume = open_volume(brick);
    ASSERT_TRUE(volume->alloc(blocks(0, 4)).ok());
    ASSERT_TRUE(volume->commit().ok());
    brick.remember_commits();
    ASSERT_TRUE(volume->free(blocks(3, 1)).ok());
    ASSERT_TRUE(volume->alloc(blocks(3, 3)).ok());
    for (uint64_t i = 0; i < 6; ++i) ASSERT_TRUE(write(*volume, i * kBlockBytes, of('x')).ok());
    ASSERT_TRUE(write(*volume, kBlockBytes, of('z')).ok());
    brick.faults().refuse(true);
    brick.restart_from_commit();
    brick.faults().lose_at(nth, BrickFaults::When::kAfter);
    brick.faults().refuse(false);
    std::this_thread::sleep_for(milliseconds(5));
    brick.restart_from_commit();
    for (uint64_t i = 0; i < 6; ++i) EXPECT_EQ(*read(*volume, i * kBlockBytes, 4096), of(i == 1 ? 'z' : 'x'));
    EXPECT_EQ(*volume->list(), std::vector{blocks(0, 6)});
  }
}

// A writer with blocks of his own and a model of what is in them.
class Writer {
 public:
  Writer(VolumeClient& volume, uint64_t first, uint64_t seed) : volume_(volume), first_(first), random_(seed) {}

  void step() {
    const uint64_t block = first_ + random_() % kBlocks;
    const auto found = model_.find(block);
    if (found == model_.end()) {
      ASSERT_TRUE(volume_.alloc(blocks(block, 1)).ok());
      model_[block] = Bytes(kUsed);
      return;
    }
    const size_t at = random_() % 31 * 1024;
    const size_t length = 512 + random_() % 1024;
    const auto part = [&](const Bytes& bytes) { return Bytes(bytes.begin() + at, bytes.begin() + at + length); };
    const uint64_t dice = random_() % 100;
    if (dice < 60) {
      const Bytes data = of(static_cast<char>(random_()), length);
      ASSERT_TRUE(write(volume_, block * kBlockBytes + at, data).ok());
      std::copy(data.begin(), data.end(), found->second.begin() + at);
    } else if (dice < 92) {
      ASSERT_EQ(*read(volume_, block * kBlockBytes + at, length), part(found->second)) << "block " << block;
    } else if (dice < 96) {
      ASSERT_TRUE(volume_.free(blocks(block, 1)).ok());
      model_.erase(found);
    } else {
      ASSERT_EQ(volume_.commit().code(), 0);
    }
  }
  void check() {
    for (const auto& [block, bytes] : model_) {
      ASSERT_EQ(*read(volume_, block * kBlockBytes, kUsed), bytes) << "block " << block;
    }
  }

  static constexpr uint64_t kBlocks = 5;

 private:
  static constexpr size_t kUsed = 32 * 1024 + 1024;
  VolumeClient& volume_;
  const uint64_t first_;
  std::mt19937_64 random_;
  std::map<uint64_t, Bytes> model_;
};

// `memory_blocks` of memory for 15 blocks; restarts keep whatever the page cache kept, or only what was committed.
void run_writers_across_restarts(uint64_t memory_blocks, bool from_commit) {
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  RestartingBrick brick(memory_blocks, 24);
  VolumeOptions options = remote_options();
  options.replay_bytes = 256 * kKiB;
  auto volume = open_volume(brick, options);
  if (from_commit) brick.remember_commits();
  std::atomic<bool> stop = false;
  std::vector<Writer> writers;
  for (uint64_t t = 0; t < 3; ++t) writers.emplace_back(*volume, t * Writer::kBlocks, seed + t);
  std::vector<std::thread> threads;
  for (Writer& writer : writers) {
    threads.emplace_back([&] {
      while (!stop && !::testing::Test::HasFatalFailure()) writer.step();
    });
  }
  std::mt19937_64 random(seed);
  for (int i = 0; i < 12; ++i) {
    std::this_thread::sleep_for(milliseconds(random() % 40));
    if (random() % 3 == 0) {
      brick.faults().lose_at(1 + random() % 10,
                             random() % 2 == 0 ? BrickFaults::When::kBefore : BrickFaults::When::kAfter);
    } else if (from_commit) {
      brick.restart_from_commit();
    } else {
      brick.restart();
    }
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  for (Writer& writer : writers) writer.check();
}

TEST(VolumeReplay, WritersNeverNoticeRestarts) { run_writers_across_restarts(24, false); }
TEST(VolumeReplay, WritersNeverNoticeRestartsFromTheLastCommit) { run_writers_across_restarts(24, true); }
TEST(VolumeReplay, WritersNeverNoticeRestartsWithLittleMemory) { run_writers_across_restarts(4, false); }

}  // namespace
}  // namespace brickfs
