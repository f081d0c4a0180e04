// SPDX-License-Identifier: Apache-2.0
// A volume that is closed, or whose client was killed, keeps room on its brick for the next mount: others may fill the
// brick meanwhile.
#include <gtest/gtest.h>

#include <string>

#include "fs/recovery/make.h"
#include "fs/recovery/recovery.h"
#include "server/service/embedded_brick.h"
#include "tests/support/mounted_volume.h"
#include "transport/volume/volume_set.h"

namespace brickfs {
namespace {

constexpr int kFiles = 40;

std::unique_ptr<VolumeSet> open(const std::shared_ptr<BrickService>& service, const char* volume) {
  VolumeOptions options;
  options.open.volume = volume;
  options.open.client = ClientId{4711};
  options.open.client_name = "another";
  options.embedded = true;
  auto opened = VolumeSet::open(make_embedded_brick(service), std::move(options), nullptr);
  EXPECT_TRUE(opened.ok());
  return std::move(*opened);
}

// Takes all that the brick gives.
class OtherVolume {
 public:
  explicit OtherVolume(const std::shared_ptr<BrickService>& service) {
    const AdminRequest create{.action = AdminAction::kCreate, .volume = "other", .size_blocks = {}};
    EXPECT_EQ(service->administer(create).status, 0);
    volume_ = open(service, "other");
  }
  void fill() {
    while (volume_->alloc({block_after(BlockAddress{0}, taken_), 1}).ok()) ++taken_;
  }
  void give_back(uint64_t blocks) {
    taken_ -= blocks;
    ASSERT_TRUE(volume_->free({block_after(BlockAddress{0}, taken_), blocks}).ok());
  }
  bool brick_is_full() const { return volume_->stat()->allocatable_blocks == 0; }

 private:
  std::unique_ptr<VolumeSet> volume_;
  uint64_t taken_ = 0;
};

void free_what_nothing_refers_to(const std::shared_ptr<BrickService>& service) {
  const auto volume = open(service, "default");
  const auto listed = *volume->list();
  SuperblockSlots slots(*volume);
  const auto head = read_head(*volume, slots, listed);
  ASSERT_TRUE(head.ok());
  InodeTable inodes;
  std::string why;
  const auto recovered = recover(*volume, head->superblock.superblock, listed, inodes, {}, &why);
  ASSERT_TRUE(recovered.ok()) << why;
  ASSERT_FALSE(recovered->blocks.leaked.empty());
  for (const BlockRange& blocks : recovered->blocks.leaked) ASSERT_TRUE(volume->free(blocks).ok());
  ASSERT_TRUE(volume->close().ok());
}

std::string name(int file) { return "file" + std::to_string(file); }

void write(Filesystem& filesystem, std::string_view name, size_t bytes) {
  const Ino ino = make_file(filesystem, name);
  ASSERT_TRUE(filesystem.allocate(ino, 0, 0, bytes, nullptr).ok());
}

class ClosedReserve : public ::testing::TestWithParam<std::tuple<uint64_t, bool>> {
 protected:
  static MountedVolume::Options options() {
    MountedVolume::Options options;
    options.memory_bytes = std::get<0>(GetParam()) * kMiB;
    return options;
  }
  static bool is_killed() { return std::get<1>(GetParam()); }
  static void leave(MountedVolume& volume) {
    ASSERT_TRUE(volume->sync_all().ok());
    if (is_killed()) {
      volume.crash();
    } else {
      ASSERT_TRUE(volume.unmount().ok());
    }
  }
};

TEST_P(ClosedReserve, OnAFullBrickItMountsWritesAndRemoves) {
  MountedVolume volume(options());
  for (int file = 0; file < kFiles; ++file) write(*volume, name(file), 300'000);
  leave(volume);
  OtherVolume other(volume.brick());
  other.fill();
  for (int round = 0; round < 5; ++round) {
    SCOPED_TRACE(round);
    std::string why;
    ASSERT_TRUE(volume.mount(&why).ok()) << why;
    ASSERT_FALSE(volume->read_only());
    other.fill();
    ASSERT_TRUE(other.brick_is_full());
    const bool writes = !is_killed();  // behind a crash what is left of the reserve may be enough to remove only
    if (writes) write(*volume, "new", 4096);
    for (int file = round; file < kFiles; file += 5) ASSERT_TRUE(volume->unlink(kRootIno, name(file)).ok()) << file;
    EXPECT_EQ(volume->unlink(kRootIno, "new").ok(), writes);
    leave(volume);
    other.fill();
  }
  ASSERT_TRUE(volume.mount().ok());
}

// As brickfs left them before it kept a reserve.
TEST_P(ClosedReserve, AVolumeWithoutOneMountsOnceThereIsRoom) {
  MountedVolume volume(options());
  write(*volume, name(0), 300'000);
  leave(volume);
  OtherVolume other(volume.brick());
  other.fill();
  free_what_nothing_refers_to(volume.brick());
  other.fill();
  std::string why;
  EXPECT_EQ(volume.mount(&why).code(), ENOSPC) << why;
  other.give_back(8);
  ASSERT_TRUE(volume.mount(&why).ok()) << why;
  ASSERT_TRUE(volume->unlink(kRootIno, name(0)).ok());
}

// Volumes on a brick without much room: each has its reserve and no more.
TEST_P(ClosedReserve, ManyClosedVolumesFitABrick) {
  MountedVolume volume(options());
  leave(volume);
  std::string why;
  for (int round = 0; round < 3; ++round) {
    ASSERT_TRUE(volume.mount(&why).ok()) << why;
    leave(volume);
    EXPECT_LE(volume.brick()->numbers().blocks.used, is_killed() ? 24u : 9u);
  }
}

INSTANTIATE_TEST_SUITE_P(VolumeMiB, ClosedReserve,
                         ::testing::Combine(::testing::Values(64, 160, 600), ::testing::Bool()));

}  // namespace
}  // namespace brickfs
