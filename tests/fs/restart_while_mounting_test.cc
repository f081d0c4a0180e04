// SPDX-License-Identifier: Apache-2.0
// A durable brick restarts while a mount reads what the last client, which crashed, had written and not committed.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "fs/operations/filesystem.h"
#include "fs/persistence/superblock.h"
#include "fs/recovery/check.h"
#include "fs/recovery/make.h"
#include "fs/recovery/recovery.h"
#include "tests/support/restarting_brick.h"
#include "transport/volume/volume_set.h"

namespace brickfs {
namespace {

class RestartWhileMounting : public ::testing::TestWithParam<size_t> {
 protected:
  void SetUp() override {
    for (size_t i = 0; i < GetParam(); ++i) bricks_.push_back(std::make_unique<RestartingBrick>(64, 64));
  }

  Result<std::unique_ptr<VolumeSet>> open(OpenMode mode = OpenMode::kExclusive) {
    VolumeOptions options;
    options.open.mode = mode;
    options.open.client = ClientId{next_client_ += 0x100};
    if (bricks_.size() == 1) return VolumeSet::open(bricks_[0]->make_brick(), options, nullptr);
    std::vector<SetBrick> bricks;
    for (auto& brick : bricks_)
      bricks.push_back({std::string(1, static_cast<char>('a' + bricks.size())), brick->make_brick()});
    SetRefusal refusal;
    return VolumeSet::open(std::move(bricks), options, false, &refusal);
  }
  std::unique_ptr<Filesystem> mount(std::string* why) {
    auto volume = open();
    if (!volume.ok()) return nullptr;
    auto mounted = Filesystem::mount(std::move(*volume), {}, why);
    return mounted.ok() ? std::move(*mounted) : nullptr;
  }
  // `kept` is durable, `late` is in the memory of the brick, and the client is gone.
  void crash_behind_late() {
    std::string why;
    auto filesystem = mount(&why);
    ASSERT_NE(filesystem, nullptr) << why;
    ASSERT_TRUE(filesystem->create(kRootIno, "kept", S_IFREG | 0644, {}).ok());
    ASSERT_TRUE(filesystem->sync_all().ok());
    BrickFaults& faults = bricks_[0]->faults();
    const uint64_t commits = faults.calls(BrickCall::kCommit);
    faults.answer(BrickCall::kCommit, EIO);  // it is tried again, later
    ASSERT_TRUE(filesystem->create(kRootIno, "late", S_IFREG | 0644, {}).ok());
    for (int i = 0; i < 5'000 && faults.calls(BrickCall::kCommit) == commits; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    ASSERT_GT(faults.calls(BrickCall::kCommit), commits);
    for (auto& brick : bricks_) {
      brick->faults().refuse(true);
      brick->faults().lose();
    }
    filesystem.reset();
    for (auto& brick : bricks_) brick->faults().refuse(false);
  }

  std::vector<std::unique_ptr<RestartingBrick>> bricks_;
  uint64_t next_client_ = 0;
};

TEST_P(RestartWhileMounting, WhatWasReadIsNotGoneOnFrom) {
  ASSERT_NO_FATAL_FAILURE(crash_behind_late());
  {
    auto volume = open();
    ASSERT_TRUE(volume.ok());
    const auto listed = (*volume)->list();
    ASSERT_TRUE(listed.ok());
    SuperblockSlots slots(**volume);
    const auto head = read_head(**volume, slots, *listed);
    ASSERT_TRUE(head.ok());
    InodeTable inodes;
    std::string why;
    const auto recovered = recover(**volume, head->superblock.superblock, *listed, inodes, {}, &why);
    ASSERT_TRUE(recovered.ok()) << why;
    ASSERT_EQ(inodes.size(), 3u) << "the root, kept, late";
    ASSERT_GT((*volume)->suspect_blocks(), 0u);
    bricks_[0]->restart();
    EXPECT_EQ(settle(**volume, *recovered).code(), EIO);
  }
  std::string why;
  const auto again = mount(&why);
  ASSERT_NE(again, nullptr) << why;
  EXPECT_FALSE(again->read_only()) << again->why_read_only();
  EXPECT_TRUE(again->lookup(kRootIno, "kept").ok());
  EXPECT_FALSE(again->lookup(kRootIno, "late").ok());
}

TEST_P(RestartWhileMounting, AReaderDoesNotGoOnEither) {
  ASSERT_NO_FATAL_FAILURE(crash_behind_late());
  auto volume = open(OpenMode::kReadOnly);
  ASSERT_TRUE(volume.ok());
  std::string why;
  MountOptions settings;
  settings.read_only = true;
  const auto reader = Filesystem::mount(std::move(*volume), settings, &why);
  ASSERT_TRUE(reader.ok()) << why;
  ASSERT_TRUE((*reader)->lookup(kRootIno, "late").ok());
  bricks_[0]->restart();
  for (int i = 0; i < 5'000 && (*reader)->volume().final_error().ok(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ((*reader)->volume().final_error().code(), EIO);
}

INSTANTIATE_TEST_SUITE_P(Bricks, RestartWhileMounting, ::testing::Values(1, 2));

}  // namespace
}  // namespace brickfs
