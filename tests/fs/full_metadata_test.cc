// SPDX-License-Identifier: Apache-2.0
// Metadata where it is large: as much of it as a full volume can hold, and operations with more rows than a transaction
// may have.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/falloc.h>

#include <array>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/mounted_volume.h"

namespace brickfs {
namespace {

std::string long_name(int number) {
  std::string name = std::to_string(number);
  return std::string(250 - name.size(), 'n') + name;
}

class FullMetadata : public ::testing::TestWithParam<uint64_t> {};

constexpr int kClients = 4;

void in_threads(const std::function<void(int)>& work) {
  std::vector<std::thread> threads;
  for (int i = 0; i < kClients; ++i) threads.emplace_back(work, i);
  for (std::thread& thread : threads) thread.join();
}

// Makes empty files until that fails: every kClients-th name from `number`. The first name not made.
int fill_with_names(Filesystem& filesystem, int number) {
  while (true) {
    const auto file = filesystem.create(kRootIno, long_name(number), 0644, root_caller());
    if (!file.ok()) {
      EXPECT_EQ(file.error().code(), ENOSPC);
      return number;
    }
    filesystem.forget(file->ino, 1);
    number += kClients;
  }
}

// Empty files take no space of data, but rows. They come and go faster than checkpoints are written.
TEST_P(FullMetadata, EmptyFilesEndWithEnospcAndCanBeRemoved) {
  MountedVolume::Options options;
  options.memory_bytes = GetParam() * kMiB;
  MountedVolume volume(options);
  const Ino filling = make_file(*volume, "filling");
  ASSERT_TRUE(volume->allocate(filling, 0, 0, (volume->stat().free_units - 3) * kUnitBytes, nullptr).ok());
  std::array<int, kClients> made{};
  in_threads([&](int thread) { made[thread] = fill_with_names(*volume, thread); });
  EXPECT_GT(made[0], 500);
  ASSERT_TRUE(volume->sync_all().ok());
  ASSERT_TRUE(volume->rename(kRootIno, long_name(0), kRootIno, "other", Rename::kReplace).ok());
  ASSERT_TRUE(volume->sync_all().ok());
  volume.crash_and_mount();
  EXPECT_FALSE(volume->read_only());
  ASSERT_TRUE(volume->rename(kRootIno, "other", kRootIno, long_name(0), Rename::kReplace).ok());
  in_threads([&](int thread) {
    for (int i = thread; i < made[thread]; i += kClients) EXPECT_TRUE(volume->unlink(kRootIno, long_name(i)).ok()) << i;
  });
  ASSERT_TRUE(volume->unlink(kRootIno, "filling").ok());
  ASSERT_TRUE(volume->sync_all().ok());
  volume.unmount_and_mount();
  EXPECT_TRUE(volume->create(kRootIno, "new", 0644, root_caller()).ok());
}

INSTANTIATE_TEST_SUITE_P(VolumeMiB, FullMetadata, ::testing::Values(40, 64, 160, 512));

// A hundred thousand extents, some 3 MiB of rows, in one operation.
TEST(FullVolume, AllocationOfManyFragmentsIsSplit) {
  MountedVolume::Options options;
  options.memory_bytes = 1024 * kMiB;
  MountedVolume volume(options);
  const Ino comb = make_file(*volume, "comb");
  const uint64_t units = volume->stat().free_units;
  ASSERT_TRUE(volume->allocate(comb, 0, 0, units * kUnitBytes, nullptr).ok());
  for (uint64_t unit = 0; unit < units; unit += 2) {
    ASSERT_TRUE(
        volume->allocate(comb, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, unit * kUnitBytes, kUnitBytes, nullptr)
            .ok());
  }
  const uint64_t free = volume->stat().free_units;
  ASSERT_GT(free, 100'000u);
  const Ino file = make_file(*volume, "fragments");
  ASSERT_TRUE(volume->allocate(file, 0, 0, (free - 100) * kUnitBytes, nullptr).ok());
  ASSERT_TRUE(volume->allocate(file, FALLOC_FL_ZERO_RANGE, 0, (free - 100) * kUnitBytes, nullptr).ok());
  ASSERT_TRUE(volume->sync_all().ok());
  volume.crash_and_mount();
  EXPECT_EQ(volume->get_attributes(file)->blocks_512, (free - 100) * 8);
  ASSERT_TRUE(
      volume->allocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, kUnitBytes, (free - 102) * kUnitBytes, nullptr)
          .ok());
  ASSERT_TRUE(volume->set_attributes(file, {.size_bytes = 0}, root_caller()).ok());
  ASSERT_TRUE(volume->unlink(kRootIno, "comb").ok());
  volume.crash_and_mount();
}

}  // namespace
}  // namespace brickfs
