// SPDX-License-Identifier: Apache-2.0
// What metadata takes of memory is known, and bounded where that is asked for.
#include <fmt/core.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <string>

#include "tests/support/mounted_volume.h"

namespace brickfs {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kHeapIsMalloc = false;
#else
constexpr bool kHeapIsMalloc = true;
#endif

uint64_t metadata_bytes(Filesystem& filesystem) { return filesystem.stat().metadata_bytes; }

void write_byte(Filesystem& filesystem, Ino ino, uint64_t offset) {
  std::byte byte{1};
  const LocalSlice slice{&byte, 1, 0};
  ASSERT_TRUE(filesystem.write(ino, offset, std::span(&slice, 1), false, nullptr, false).ok());
}

// Names of all lengths, in directories small and large, some with a second extent, an attribute, or a target.
void make_many(Filesystem& filesystem, int count) {
  const auto directory = filesystem.make_directory(kRootIno, "large", 0755, root_caller());
  ASSERT_TRUE(directory.ok());
  Ino small = kRootIno;
  for (int i = 0; i < count; ++i) {
    if (i % 20 == 0) small = filesystem.make_directory(kRootIno, fmt::format("small{}", i), 0755, root_caller())->ino;
    const Ino where = i % 2 == 0 ? directory->ino : small;
    const std::string name = fmt::format("{:0{}}", i, 8 + i % 60);
    if (i % 10 == 9) {
      ASSERT_TRUE(filesystem.make_symlink(where, name, std::string(40, 'x'), root_caller()).ok());
      continue;
    }
    const auto made = filesystem.create(where, name, 0644, root_caller());
    ASSERT_TRUE(made.ok());
    if (i % 4 == 0) write_byte(filesystem, made->ino, 0);
    if (i % 8 == 0) write_byte(filesystem, made->ino, 1 * kMiB);
    filesystem.forget(made->ino, 1);
  }
}

TEST(MetadataMemory, IsReckonedAsTheHeapHasIt) {
  if (!kHeapIsMalloc) GTEST_SKIP() << "a sanitizer's heap";
  MountedVolume volume({.memory_bytes = 512 * kMiB, .mount = {}});
  ASSERT_TRUE(volume->checkpoint().ok());
  const uint64_t heap_before = ::mallinfo2().uordblks;
  const uint64_t before = metadata_bytes(*volume);
  make_many(*volume, 20'000);
  ASSERT_TRUE(volume->checkpoint().ok());  // the journal's and the replay's memory goes
  const auto heap = static_cast<double>(::mallinfo2().uordblks - heap_before);
  const auto reckoned = static_cast<double>(metadata_bytes(*volume) - before);
  EXPECT_GT(reckoned, 0.6 * heap);  // maps of free space have grown, too
  EXPECT_LT(reckoned, 1.25 * heap);
}

TEST(MetadataMemory, IsTheSameAfterAMountAndGoesWithWhatTookIt) {
  MountedVolume volume({.memory_bytes = 256 * kMiB, .mount = {}});
  const uint64_t empty = metadata_bytes(*volume);
  make_many(*volume, 2'000);
  const auto before = static_cast<double>(metadata_bytes(*volume));
  volume.unmount_and_mount();
  EXPECT_NEAR(static_cast<double>(metadata_bytes(*volume)), before, before / 20);
  const auto made = volume->create(kRootIno, "one", 0644, root_caller());
  ASSERT_TRUE(made.ok());
  volume->forget(made->ino, 1);
  const uint64_t with_it = metadata_bytes(*volume);
  EXPECT_GT(with_it, empty);
  ASSERT_TRUE(volume->unlink(kRootIno, "one").ok());
  EXPECT_LT(metadata_bytes(*volume) + 100, with_it);
}

TEST(MetadataMemory, BeyondItsBoundNewNamesGetEnospcAndTheRestWorks) {
  MountedVolume volume({.memory_bytes = 128 * kMiB, .mount = {.max_metadata_bytes = 1 * kMiB}});
  int made = 0;
  Ino last{};
  for (;; ++made) {
    ASSERT_LT(made, 20'000);
    const auto file = volume->create(kRootIno, fmt::format("file{}", made), 0644, root_caller());
    if (!file.ok()) {
      EXPECT_EQ(file.code(), ENOSPC);
      break;
    }
    last = file->ino;
    volume->forget(file->ino, 1);
    if (made == 100) {
      EXPECT_GT(volume->stat().free_inodes, 1000u);
    }
  }
  EXPECT_GT(made, 1000);
  EXPECT_LE(metadata_bytes(*volume), 1 * kMiB + 64 * kKiB);
  EXPECT_EQ(volume->stat().free_inodes, 0u);
  EXPECT_EQ(volume->link(last, kRootIno, "link").code(), ENOSPC);
  EXPECT_EQ(volume->make_directory(kRootIno, "directory", 0755, root_caller()).code(), ENOSPC);
  write_byte(*volume, last, 0);
  EXPECT_TRUE(volume->rename(kRootIno, "file1", kRootIno, "other", Rename::kReplace).ok());

  ASSERT_TRUE(volume->sync_all().ok());
  volume.crash_and_mount();  // what is there is mounted, bound or not
  EXPECT_EQ(volume->create(kRootIno, "new", 0644, root_caller()).code(), ENOSPC);
  for (int i = 2; i < 10; ++i) ASSERT_TRUE(volume->unlink(kRootIno, fmt::format("file{}", i)).ok());
  EXPECT_TRUE(volume->create(kRootIno, "new", 0644, root_caller()).ok());
}

}  // namespace
}  // namespace brickfs
