// SPDX-License-Identifier: Apache-2.0
// What each state of a volume leads to: docs/recovery.md, "Decision table".
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <xxhash.h>

#include <cstring>

#include "fs/operations/filesystem.h"
#include "fs/recovery/make.h"
#include "tests/support/embedded_volume.h"
#include "tests/support/restarting_brick.h"
#include "tests/support/stopping_brick.h"
#include "tests/support/tree_dump.h"

namespace brickfs {
namespace {

constexpr uint64_t kSlots[] = {0, 1 * kMiB};
constexpr size_t kSlotBytes = 4096;

Result<std::unique_ptr<Filesystem>> try_mount(EmbeddedVolume& volume, std::string* why, bool read_only = false) {
  auto client = TRY(volume.try_open(read_only ? OpenMode::kReadOnly : OpenMode::kExclusive));
  return Filesystem::mount(std::move(client), {.read_only = read_only}, why);
}

std::unique_ptr<Filesystem> mount(EmbeddedVolume& volume, bool read_only = false) {
  std::string why;
  auto filesystem = try_mount(volume, &why, read_only);
  EXPECT_TRUE(filesystem.ok()) << why;
  return filesystem.ok() ? std::move(*filesystem) : nullptr;
}

void write_file(Filesystem& filesystem, std::string_view name, std::string text) {
  const auto file = filesystem.create(kRootIno, name, S_IFREG | 0644, {});
  ASSERT_TRUE(file.ok()) << file.error().what();
  const LocalSlice slice{reinterpret_cast<std::byte*>(text.data()), static_cast<uint32_t>(text.size()), 0};
  ASSERT_TRUE(filesystem.write(file->ino, 0, std::span(&slice, 1), false, nullptr).ok());
  filesystem.forget(file->ino, 1);
}

Ino stat_ino(Filesystem& filesystem, std::string_view name) {
  const auto found = filesystem.lookup(kRootIno, name);
  EXPECT_TRUE(found.ok());
  if (!found.ok()) return kNoIno;
  filesystem.forget(found->ino, 1);
  return found->ino;
}

uint64_t count_listed(EmbeddedVolume& volume) {
  uint64_t blocks = 0;
  const auto listed = volume.open(OpenMode::kObserve)->list();
  for (const BlockRange& range : *listed) blocks += range.count;
  return blocks;
}

std::vector<std::byte> read_bytes(VolumeSet& client, uint64_t address, size_t length) {
  std::vector<std::byte> bytes(length);
  const Piece piece{address, {{bytes.data(), static_cast<uint32_t>(length), 0}}};
  EXPECT_TRUE(client.read(std::span(&piece, 1)).ok());
  return bytes;
}

void write_bytes(VolumeSet& client, uint64_t address, std::vector<std::byte> bytes) {
  const Piece piece{address, {{bytes.data(), static_cast<uint32_t>(bytes.size()), 0}}};
  ASSERT_TRUE(client.write(std::span(&piece, 1), Stage::kData).ok());
  ASSERT_TRUE(client.commit().ok());
}

void free_a_block_full_of(EmbeddedVolume& volume, std::byte byte) {
  const auto client = volume.open();
  const std::vector<std::byte> full(kBlockBytes, byte);
  const auto listed = client->list();
  for (const BlockRange& range : *listed) {
    for (uint64_t i = 0; i < range.count; ++i) {
      const BlockAddress block = block_after(range.start, i);
      if (read_bytes(*client, raw(block), kBlockBytes) != full) continue;
      ASSERT_TRUE(client->free({block, 1}).ok());
      ASSERT_TRUE(client->close().ok());
      return;
    }
  }
  FAIL() << "there is no such block";
}

// Changes a field of the superblock as a program with another mind would have written it.
template <typename T>
void patch_superblock(EmbeddedVolume& volume, size_t offset, T value) {
  const auto client = volume.open();
  for (const uint64_t address : kSlots) {
    std::vector<std::byte> slot = read_bytes(*client, address, kSlotBytes);
    std::memcpy(slot.data() + offset, &value, sizeof(value));
    const uint64_t checksum = XXH3_64bits(slot.data(), kSlotBytes - 8);
    std::memcpy(slot.data() + kSlotBytes - 8, &checksum, sizeof(checksum));
    write_bytes(*client, address, slot);
  }
  ASSERT_TRUE(client->close().ok());
}

TEST(Mount, MakesAFilesystemOnAnEmptyVolume) {
  EmbeddedVolume volume(64 * kMiB);
  const auto filesystem = mount(volume);
  const auto root = filesystem->get_attributes(kRootIno);
  ASSERT_TRUE(root.ok());
  EXPECT_EQ(root->mode, uint32_t{S_IFDIR | 0755});
  EXPECT_EQ(root->nlink, 2u);
  EXPECT_EQ(dump_tree(*filesystem), "");
}

TEST(Mount, FilesSurviveUnmountAndCrash) {
  EmbeddedVolume volume(64 * kMiB);
  std::string before;
  {
    const auto filesystem = mount(volume);
    write_file(*filesystem, "a", "hello");
    ASSERT_TRUE(filesystem->unmount().ok());
  }
  {
    const auto filesystem = mount(volume);
    write_file(*filesystem, "b", std::string(10000, 'x'));
    ASSERT_TRUE(filesystem->sync_all().ok());
    before = dump_tree(*filesystem);
  }
  EXPECT_EQ(dump_tree(*mount(volume)), before);
  EXPECT_NE(before.find("/b"), std::string::npos);
}

TEST(Mount, TellsWhetherTheLastOneEndedInOrder) {
  EmbeddedVolume volume(64 * kMiB);
  {
    const auto filesystem = mount(volume);
    EXPECT_FALSE(filesystem->was_unmounted()) << "there was none";
    ASSERT_TRUE(filesystem->unmount().ok());
  }
  EXPECT_TRUE(mount(volume)->was_unmounted());
  EXPECT_FALSE(mount(volume)->was_unmounted()) << "the last one has changed nothing, and went without a word";
}

TEST(Mount, AnEmptyFilesystemHasAConstantNumberOfBlocks) {
  EmbeddedVolume volume(128 * kMiB);
  ASSERT_TRUE(mount(volume)->unmount().ok());
  {
    const auto filesystem = mount(volume);
    write_file(*filesystem, "warm", "up");
    ASSERT_TRUE(filesystem->unlink(kRootIno, "warm").ok());
    ASSERT_TRUE(filesystem->unmount().ok());
  }
  const uint64_t blocks = count_listed(volume);
  for (int round = 0; round < 3; ++round) {
    const auto filesystem = mount(volume);
    for (int i = 0; i < 10; ++i) write_file(*filesystem, "f" + std::to_string(i), std::string(500'000, 'x'));
    for (int i = 0; i < 10; ++i) ASSERT_TRUE(filesystem->unlink(kRootIno, "f" + std::to_string(i)).ok());
    ASSERT_TRUE(filesystem->unmount().ok());
    EXPECT_EQ(count_listed(volume), blocks);
  }
}

TEST(Mount, ReadOnlyWritesNothingToTheBrick) {
  EmbeddedVolume volume(64 * kMiB);
  std::string before;
  {
    const auto filesystem = mount(volume);
    write_file(*filesystem, "a", "hello");
    ASSERT_TRUE(filesystem->sync_all().ok());
    before = dump_tree(*filesystem);
  }
  auto brick = std::make_unique<StoppingBrick>(volume.brick(), 0, 1);
  const StoppingBrick* const observed = brick.get();
  std::string why;
  auto client = volume.try_open(std::move(brick), OpenMode::kReadOnly);
  ASSERT_TRUE(client.ok());
  const auto filesystem = Filesystem::mount(std::move(*client), {.read_only = true}, &why);
  ASSERT_TRUE(filesystem.ok()) << why;
  EXPECT_TRUE((*filesystem)->read_only());
  EXPECT_EQ(dump_tree(**filesystem), before);
  EXPECT_EQ((*filesystem)->create(kRootIno, "b", S_IFREG | 0644, {}).code(), EROFS);
  EXPECT_GT((*filesystem)->stat().free_units, 0u);
  EXPECT_FALSE(observed->stopped());
  EXPECT_TRUE((*filesystem)->unmount().ok());
}

TEST(Mount, ReadOnlyOfAnEmptyVolumeIsRefused) {
  EmbeddedVolume volume(64 * kMiB);
  std::string why;
  EXPECT_EQ(try_mount(volume, &why, true).code(), EROFS);
  EXPECT_EQ(count_listed(volume), 0u);
}

TEST(Mount, BlocksWithoutAFilesystemAreRefusedAndKept) {
  EmbeddedVolume volume(64 * kMiB);
  std::string why;
  {
    const auto client = volume.open();
    ASSERT_TRUE(client->alloc({BlockAddress{0x400000}, 2}).ok());
    ASSERT_TRUE(client->close().ok());
  }
  EXPECT_EQ(try_mount(volume, &why).code(), EUCLEAN);
  EXPECT_NE(why.find("no brickfs"), std::string::npos) << why;
  {
    const auto client = volume.open();
    ASSERT_TRUE(client->alloc({BlockAddress{0}, 1}).ok());
    ASSERT_TRUE(client->close().ok());
  }
  EXPECT_EQ(try_mount(volume, &why).code(), EUCLEAN);
  EXPECT_NE(why.find("no brickfs"), std::string::npos) << why;
  EXPECT_EQ(count_listed(volume), 3u);
}

TEST(Mount, ForeignBytesAreRefused) {
  EmbeddedVolume volume(64 * kMiB);
  {
    const auto client = volume.open();
    ASSERT_TRUE(client->alloc(kSuperblockBlock).ok());
    write_bytes(*client, 0, std::vector<std::byte>(100, std::byte{0x5a}));
    ASSERT_TRUE(client->close().ok());
  }
  std::string why;
  EXPECT_EQ(try_mount(volume, &why).code(), EUCLEAN);
  EXPECT_NE(why.find("no brickfs"), std::string::npos) << why;
}

TEST(Mount, NewerFormatIsRefused) {
  EmbeddedVolume volume(64 * kMiB);
  ASSERT_TRUE(mount(volume)->unmount().ok());
  patch_superblock<uint32_t>(volume, 8, 99);
  std::string why;
  EXPECT_EQ(try_mount(volume, &why).code(), ENOTSUP);
  EXPECT_NE(why.find("newer"), std::string::npos) << why;
}

TEST(Mount, UnknownReadOnlyFeatureMountsReadOnly) {
  EmbeddedVolume volume(64 * kMiB);
  {
    const auto filesystem = mount(volume);
    write_file(*filesystem, "a", "hello");
    ASSERT_TRUE(filesystem->unmount().ok());
  }
  patch_superblock<uint64_t>(volume, 24, 1);
  const auto filesystem = mount(volume);
  EXPECT_TRUE(filesystem->read_only());
  EXPECT_EQ(filesystem->create(kRootIno, "b", S_IFREG | 0644, {}).code(), EROFS);
  EXPECT_NE(dump_tree(*filesystem).find("/a"), std::string::npos);
}

TEST(Mount, AMissingBlockMeansReadOnly) {
  EmbeddedVolume volume(64 * kMiB);
  {
    const auto filesystem = mount(volume);
    write_file(*filesystem, "big", std::string(5'000'000, 'x'));
    write_file(*filesystem, "small", "hello");
    ASSERT_TRUE(filesystem->unmount().ok());
  }
  free_a_block_full_of(volume, std::byte{'x'});
  const uint64_t blocks = count_listed(volume);
  const auto filesystem = mount(volume);
  EXPECT_TRUE(filesystem->read_only());
  EXPECT_EQ(count_listed(volume), blocks);
}

TEST(Mount, AnUnlinkedOpenFileIsDeletedByTheNextMount) {
  EmbeddedVolume volume(64 * kMiB);
  uint64_t free_units = 0;
  {
    const auto filesystem = mount(volume);
    ASSERT_TRUE(filesystem->sync_all().ok());
    free_units = filesystem->stat().free_units;
    const auto file = filesystem->create(kRootIno, "open", S_IFREG | 0644, {});
    std::string text(3'000'000, 'x');
    const LocalSlice slice{reinterpret_cast<std::byte*>(text.data()), static_cast<uint32_t>(text.size()), 0};
    ASSERT_TRUE(filesystem->write(file->ino, 0, std::span(&slice, 1), false, nullptr).ok());
    ASSERT_TRUE(filesystem->unlink(kRootIno, "open").ok());
    ASSERT_TRUE(filesystem->sync_all().ok());
    EXPECT_EQ(filesystem->stat().inodes, 2u);
  }
  const auto filesystem = mount(volume);
  EXPECT_EQ(filesystem->stat().inodes, 1u);
  ASSERT_TRUE(filesystem->sync_all().ok());
  EXPECT_EQ(filesystem->stat().free_units, free_units);
}

TEST(Mount, InodeNumbersAreNotGivenAgain) {
  EmbeddedVolume volume(64 * kMiB);
  Ino highest{};
  {
    const auto filesystem = mount(volume);
    write_file(*filesystem, "a", "x");
    highest = stat_ino(*filesystem, "a");
    ASSERT_TRUE(filesystem->unlink(kRootIno, "a").ok());
    ASSERT_TRUE(filesystem->unmount().ok());
  }
  const auto filesystem = mount(volume);
  write_file(*filesystem, "b", "x");
  EXPECT_GT(raw(stat_ino(*filesystem, "b")), raw(highest));
}

// A commit that fails, as on a soft mount while the brick is away, and that a later step of the end makes good.
TEST(Mount, WhatAnEndMakesGoodIsNoFailureOfIt) {
  RestartingBrick brick(64, 64);
  const auto mount_it = [&brick] {
    VolumeOptions options;
    options.open.client = ClientId{1};
    options.open.client_name = "test";
    std::string why;
    return std::move(*Filesystem::mount(std::move(*VolumeSet::open(brick.make_brick(), options, nullptr)), {}, &why));
  };
  {
    const auto filesystem = mount_it();
    write_file(*filesystem, "synced", "hello");
    ASSERT_TRUE(filesystem->sync_all().ok());
    write_file(*filesystem, "file", "hello");
    brick.faults().answer(BrickCall::kCommit, ENOSPC);
    EXPECT_TRUE(filesystem->unmount().ok());
  }
  const auto filesystem = mount_it();
  EXPECT_NE(stat_ino(*filesystem, "file"), kNoIno);
}

// The client dies at each change that making a file system takes: the next mount makes it, or finds it made.
TEST(Mount, InterruptedMakingIsTakenUp) {
  for (uint64_t changes = 0;; ++changes) {
    ASSERT_LT(changes, 200u);
    EmbeddedVolume volume(64 * kMiB);
    bool mounted = false;
    {
      auto client = volume.try_open(std::make_unique<StoppingBrick>(volume.brick(), changes, changes));
      ASSERT_TRUE(client.ok());
      std::string why;
      mounted = Filesystem::mount(std::move(*client), {}, &why).ok();
    }
    const auto filesystem = mount(volume);
    ASSERT_NE(filesystem, nullptr) << "died at change " << changes;
    EXPECT_FALSE(filesystem->read_only());
    write_file(*filesystem, "a", "hello");
    ASSERT_TRUE(filesystem->unmount().ok());
    if (mounted) break;
  }
}

}  // namespace
}  // namespace brickfs
