// SPDX-License-Identifier: Apache-2.0
// A volatile brick whose memory outlives its process: after a stop, and after a kill at any instant under load.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <random>
#include <thread>

#include "server/service/embedded_brick.h"
#include "tests/support/brick_contract.h"

namespace brickfs::testing {
namespace {

constexpr uint64_t kKeptBlocks = 16;
constexpr uint64_t kGroups = 6;  // of blocks that are allocated and freed together
constexpr uint64_t kGroupBlocks = 3;
constexpr uint64_t kWordBytes = 64;  // the same number over and over

std::shared_ptr<BrickService> open_kept(const std::string& path, uint64_t blocks = kKeptBlocks,
                                        std::chrono::milliseconds grace = {}) {
  BrickConfig config;
  config.memory_bytes = blocks * kBlockBytes;
  config.keep_path = path;
  config.volumes = {{"other", 4 * kBlockBytes}};
  config.grace = grace;
  std::string why;
  auto service = BrickService::open(config, &why);
  EXPECT_TRUE(service.ok()) << why;
  return service.ok() ? std::shared_ptr<BrickService>(*std::move(service)) : nullptr;
}

OpenRequest client_of(const char* volume, uint64_t client = 1, Epoch resume = {}) {
  OpenRequest request;
  request.volume = volume;
  request.client = ClientId{client};
  request.resume = resume;
  return request;
}

std::vector<std::byte> words(uint64_t value) {
  std::vector<std::byte> bytes(kWordBytes);
  for (uint64_t i = 0; i < kWordBytes; i += sizeof(value)) std::memcpy(&bytes[i], &value, sizeof(value));
  return bytes;
}

TEST(KeptBrick, AStopLosesNothingOfAnyVolume) {
  const TemporaryMemoryFile file;
  Session before;
  {
    auto service = open_kept(file.path());
    auto one = make_embedded_brick(service);
    auto two = make_embedded_brick(service);
    before = *one->open(client_of("default"), nullptr);
    ASSERT_TRUE(two->open(client_of("other", 2), nullptr).ok());
    ASSERT_TRUE(one->alloc(blocks(0, 5)).ok());
    ASSERT_TRUE(two->alloc(blocks(0, 2)).ok());
    ASSERT_TRUE(write(*one, one->map(blocks(3), Access::kReadWrite)->front(), 7, pattern(5000, 1)).ok());
    ASSERT_TRUE(write(*two, two->map(blocks(1), Access::kReadWrite)->front(), 9, pattern(5000, 2)).ok());
    ASSERT_TRUE(one->free(blocks(1)).ok());
    EXPECT_EQ(one->stat()->medium, "memory that outlives brickd, kept in " + file.path());
    EXPECT_EQ(one->stat()->durability, Durability::kVolatile);
  }
  auto service = open_kept(file.path());
  auto one = make_embedded_brick(service);
  const auto after = one->open(client_of("default", 1, before.epoch), nullptr);
  ASSERT_TRUE(after.ok());
  EXPECT_EQ(after->boot, before.boot);  // for its clients it has not restarted
  EXPECT_EQ(after->epoch, before.epoch);
  EXPECT_EQ(one->list(BlockAddress{0})->extents, (std::vector<BlockRange>{blocks(0), blocks(2, 3)}));
  EXPECT_EQ(read(*one, one->map(blocks(3), Access::kRead)->front(), 7, 5000), pattern(5000, 1));
  auto two = make_embedded_brick(service);
  ASSERT_TRUE(two->open(client_of("other", 2), nullptr).ok());
  EXPECT_EQ(read(*two, two->map(blocks(1), Access::kRead)->front(), 9, 5000), pattern(5000, 2));
  EXPECT_EQ(two->alloc(blocks(2, 3)).code(), EDQUOT);
  // What is new is zero, whoever had it before, and all of the memory can be had.
  ASSERT_TRUE(one->alloc(blocks(100, kKeptBlocks - 6)).ok());
  EXPECT_EQ(one->alloc(blocks(200)).code(), ENOSPC);
  for (uint64_t i = 0; i < kKeptBlocks - 6; ++i) {
    const Handle handle = one->map(blocks(100 + i), Access::kRead)->front();
    EXPECT_EQ(read(*one, handle, 0, kBlockBytes), std::vector<std::byte>(kBlockBytes));
  }
}

// A frame that another block had is cleared for the first mapping, whenever that comes, and never again.
TEST(KeptBrick, ABlockIsZerosUntilItIsWrittenAlsoAfterARestart) {
  const TemporaryMemoryFile file;
  const auto with_brick = [&](const std::function<void(Brick&)>& work) {
    auto brick = make_embedded_brick(open_kept(file.path(), 1));
    ASSERT_TRUE(brick->open(client_of("default"), nullptr).ok());
    work(*brick);
  };
  const auto all_of = [](Brick& brick, uint64_t number) {
    return read(brick, brick.map(blocks(number), Access::kRead)->front(), 0, kBlockBytes);
  };
  with_brick([&](Brick& brick) {
    ASSERT_TRUE(brick.alloc(blocks(0)).ok());
    const Handle handle = brick.map(blocks(0), Access::kReadWrite)->front();
    ASSERT_TRUE(write(brick, handle, 0, pattern(kBlockBytes, 1)).ok());
    ASSERT_TRUE(brick.free(blocks(0)).ok());
    ASSERT_TRUE(brick.alloc(blocks(7)).ok());  // in the only frame
  });
  with_brick([&](Brick& brick) { EXPECT_EQ(all_of(brick, 7), std::vector<std::byte>(kBlockBytes)); });
  with_brick([&](Brick& brick) {
    const Handle handle = brick.map(blocks(7), Access::kReadWrite)->front();
    ASSERT_TRUE(write(brick, handle, 0, pattern(kBlockBytes, 2)).ok());
    ASSERT_TRUE(brick.unmap(blocks(7)).ok());
    EXPECT_EQ(all_of(brick, 7), pattern(kBlockBytes, 2));
  });
  with_brick([&](Brick& brick) { EXPECT_EQ(all_of(brick, 7), pattern(kBlockBytes, 2)); });
}

TEST(KeptBrick, IsKeptForItsHolderAsADurableOneIs) {
  const TemporaryMemoryFile file;
  Session held;
  {
    auto service = open_kept(file.path());
    auto brick = make_embedded_brick(service);
    held = *brick->open(client_of("default"), nullptr);
  }
  auto service = open_kept(file.path(), kKeptBlocks, std::chrono::seconds(10));
  Holder holder;
  EXPECT_EQ(make_embedded_brick(service)->open(client_of("default", 2), &holder).code(), EBUSY);
  EXPECT_GT(holder.kept_for.count(), 0);
  auto brick = make_embedded_brick(service);
  EXPECT_TRUE(brick->open(client_of("default", 1, held.epoch), nullptr).ok());
  ASSERT_TRUE(brick->close().ok());
  EXPECT_TRUE(make_embedded_brick(service)->open(client_of("default", 2), nullptr).ok());
}

TEST(KeptBrick, WithAStoreThereIsNothingToKeep) {
  const TemporaryMemoryFile file;
  const TemporaryDirectory directory;
  BrickConfig config;
  config.memory_bytes = 4 * kBlockBytes;
  config.store_path = directory.path("store");
  config.store_bytes = 4 * kBlockBytes;
  config.keep_path = file.path();
  std::string why;
  EXPECT_EQ(BrickService::open(config, &why).code(), EINVAL);
  EXPECT_FALSE(why.empty());
}

// What the child has done, and is about to do.
struct GroupProgress {
  std::atomic<uint64_t> begun[kGroups];  // odd: it is there; each number is another life of it
  std::atomic<uint64_t> done[kGroups];
  std::atomic<uint64_t> written[kGroups];  // to each of its blocks, in this life
  std::atomic<uint64_t> epoch;
};

// Allocates groups, writes to all of their blocks, frees them: until killed.
[[noreturn]] void run_kept_child(const std::string& path, GroupProgress& progress, unsigned seed) {
  auto brick = make_embedded_brick(open_kept(path, kGroups * kGroupBlocks));
  const auto session = brick->open(client_of("default", 1, Epoch{progress.epoch.load()}), nullptr);
  if (!session.ok()) _exit(2);
  progress.epoch = static_cast<uint64_t>(session->epoch);
  std::mt19937 random(seed);
  while (true) {
    const uint64_t group = random() % kGroups;
    const BlockRange range = blocks(group * 10, kGroupBlocks);
    const uint64_t life = progress.done[group];
    if (life % 2 == 1 && random() % 2 == 0) {
      const auto handles = brick->map(range, Access::kReadWrite);
      if (!handles.ok()) _exit(3);
      const uint64_t value = progress.written[group] + 1;
      for (const Handle& handle : *handles) {
        for (uint64_t i = 0; i < handle.blocks.count; ++i) {
          if (!write(*brick, handle, i * kBlockBytes + 4096, words(value)).ok()) _exit(4);
        }
      }
      progress.written[group] = value;
      if (random() % 2 == 0 && !brick->unmap(range).ok()) _exit(5);
      continue;
    }
    progress.begun[group] = life + 1;
    const Status changed = life % 2 == 0 ? brick->alloc(range) : brick->free(range);
    if (!changed.ok()) _exit(6);
    if (life % 2 == 1) progress.written[group] = 0;
    progress.done[group] = life + 1;
  }
}

void check_group(Brick& brick, GroupProgress& progress, uint64_t group) {
  const BlockRange range = blocks(group * 10, kGroupBlocks);
  const auto page = brick.list(range.start);
  ASSERT_TRUE(page.ok());
  uint64_t found = 0;
  for (const BlockRange& extent : page->extents) {
    if (extent.start >= range.start && extent.start < range.end()) found += extent.count;
  }
  ASSERT_TRUE(found == 0 || found == kGroupBlocks) << "half of what was asked for in one call";
  const uint64_t done = progress.done[group];
  const uint64_t life = found == done % 2 * kGroupBlocks ? done : done + 1;
  EXPECT_LE(life, progress.begun[group].load()) << "group " << group << " is not as it was left";
  const uint64_t written = life == done ? progress.written[group].load() : 0;
  progress.begun[group] = progress.done[group] = life;
  progress.written[group] = written;
  if (found == 0) return;
  const auto handles = brick.map(range, Access::kRead);
  ASSERT_TRUE(handles.ok());
  for (const Handle& handle : *handles) {
    for (uint64_t i = 0; i < handle.blocks.count; ++i) {
      // The write under way may be there, in part: words of it.
      const auto bytes = read(brick, handle, i * kBlockBytes + 4096, kWordBytes);
      for (uint64_t at = 0; at < kWordBytes; at += sizeof(uint64_t)) {
        const uint64_t value = load<uint64_t>(std::span(bytes).subspan(at));
        EXPECT_TRUE(value == written || value == written + 1) << value << " and not " << written;
      }
      EXPECT_EQ(read(brick, handle, i * kBlockBytes + 8192, 4096), std::vector<std::byte>(4096));
    }
  }
  ASSERT_TRUE(brick.unmap(range).ok());
  // Whatever of it was there: it is written again, as a client does.
  const auto again = brick.map(range, Access::kReadWrite);
  ASSERT_TRUE(again.ok());
  for (const Handle& handle : *again) {
    for (uint64_t i = 0; i < handle.blocks.count; ++i) {
      ASSERT_TRUE(write(brick, handle, i * kBlockBytes + 4096, words(written)).ok());
    }
  }
  ASSERT_TRUE(brick.unmap(range).ok());
}

TEST(KeptBrickCrash, KilledAnywhereUnderLoadItLosesNothing) {
  const TemporaryMemoryFile file;
  void* const shared = mmap(nullptr, sizeof(GroupProgress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(shared, MAP_FAILED);
  auto& progress = *new (shared) GroupProgress{};
  const unsigned seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  BootId boot{};
  for (int round = 0; round < 20 && !::testing::Test::HasFailure(); ++round) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) run_kept_child(file.path(), progress, seed + static_cast<unsigned>(round));
    std::this_thread::sleep_for(std::chrono::microseconds(20'000 + random() % 60'000));
    kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the child gave up with " << WEXITSTATUS(status);
    auto service = open_kept(file.path(), kGroups * kGroupBlocks);
    ASSERT_TRUE(service);
    auto brick = make_embedded_brick(service);
    const auto session = brick->open(client_of("default", 1, Epoch{progress.epoch.load()}), nullptr);
    ASSERT_TRUE(session.ok()) << "the lease is forgotten";
    EXPECT_TRUE(boot == BootId{} || boot == session->boot) << "it does not prove itself";
    boot = session->boot;
    progress.epoch = static_cast<uint64_t>(session->epoch);
    for (uint64_t group = 0; group < kGroups; ++group) check_group(*brick, progress, group);
  }
  uint64_t lives = 0;
  for (const auto& count : progress.done) lives += count.load();
  EXPECT_GT(lives, 20u);
  munmap(shared, sizeof(GroupProgress));
}

}  // namespace
}  // namespace brickfs::testing
