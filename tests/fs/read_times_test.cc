// SPDX-License-Identifier: Apache-2.0
// Times of reading, which reading itself does not journal: what keeps them, and crashes meanwhile.
#include "fs/persistence/read_times.h"

#include <gtest/gtest.h>

#include "fs/operations/filesystem.h"
#include "tests/support/embedded_volume.h"
#include "tests/support/mounted_volume.h"
#include "tests/support/stopping_brick.h"
#include "tests/support/tree_dump.h"

namespace brickfs {
namespace {

constexpr TimeNs kOld{1};

bool set_old(Filesystem& filesystem, Ino ino) {
  return filesystem.set_attributes(ino, {.atime = kOld}, root_caller()).ok();
}

bool is_old(Filesystem& filesystem, Ino ino) { return filesystem.get_attributes(ino)->atime == kOld; }

void read_it(Filesystem& filesystem, Ino ino) { EXPECT_EQ(read(filesystem, ino, 0, 1).size(), 1u); }

// A file of one byte and a directory that look as if nobody had read them, in a volume that was unmounted since.
class TimesOfReading : public ::testing::Test {
 protected:
  TimesOfReading() {
    file_ = make_file(*volume_, "file");
    directory_ = volume_->make_directory(kRootIno, "directory", 0755, root_caller())->ino;
    std::byte byte{1};
    const LocalSlice slice{&byte, 1, 0};
    EXPECT_TRUE(volume_->write(file_, 0, std::span(&slice, 1), false, nullptr).ok());
    for (const Ino ino : {file_, directory_}) EXPECT_TRUE(set_old(*volume_, ino));
    volume_.unmount_and_mount();
  }
  void read_both() {
    read_it(*volume_, file_);
    EXPECT_TRUE(volume_->read_directory(directory_, 0, false, [](const DirectoryEntry&) { return true; }).ok());
    EXPECT_FALSE(is_old(*volume_, file_));
    EXPECT_FALSE(is_old(*volume_, directory_));
  }

  MountedVolume volume_;
  Ino file_{};
  Ino directory_{};
};

TEST_F(TimesOfReading, AreKeptByACleanEnd) {
  read_both();
  volume_.unmount_and_mount();
  EXPECT_FALSE(is_old(*volume_, file_));
  EXPECT_FALSE(is_old(*volume_, directory_));
}

TEST_F(TimesOfReading, AreKeptByASyncOfTheFile) {
  read_both();
  ASSERT_TRUE(volume_->sync(file_).ok());
  volume_.crash_and_mount();
  EXPECT_FALSE(is_old(*volume_, file_));
  EXPECT_TRUE(is_old(*volume_, directory_)) << "as lazytime: nobody has asked for it";
}

TEST_F(TimesOfReading, AreKeptByASyncOfAll) {
  read_both();
  ASSERT_TRUE(volume_->sync_all().ok());
  volume_.crash_and_mount();
  EXPECT_FALSE(is_old(*volume_, file_));
  EXPECT_FALSE(is_old(*volume_, directory_));
}

TEST_F(TimesOfReading, AreKeptByACheckpointAndCostNoOtherThen) {
  read_both();
  ASSERT_TRUE(volume_->checkpoint().ok());
  const auto took = volume_->persistence().checkpoint_took;
  ASSERT_TRUE(volume_->checkpoint().ok());
  EXPECT_EQ(volume_->persistence().checkpoint_took, took) << "there was nothing to write";
  volume_.crash_and_mount();
  EXPECT_FALSE(is_old(*volume_, file_));
  EXPECT_FALSE(is_old(*volume_, directory_));
}

TEST(ReadTimes, StayUntilTheCheckpointIsDurable) {
  ReadTimes times;
  times.add(Ino{5});
  times.begin_scan();
  times.add(Ino{6});
  EXPECT_FALSE(times.empty());
  times.end_scan(false);
  EXPECT_TRUE(times.take(Ino{5})) << "it failed";
  times.add(Ino{5});
  times.begin_scan();
  EXPECT_TRUE(times.take(Ino{6})) << "a sync does not wait for it";
  times.add(Ino{6});
  times.end_scan(true);
  EXPECT_FALSE(times.take(Ino{5}));
  EXPECT_TRUE(times.take(Ino{6})) << "it may have been passed by";
  EXPECT_TRUE(times.empty());
}

// The client dies at each change that a sync and a clean end make of times of reading alone.
TEST(ReadTimes, ACrashLeavesTheTreeAsItWas) {
  bool ended = false;
  for (uint64_t changes = 0; !ended; ++changes) {
    ASSERT_LT(changes, 200u);
    SCOPED_TRACE(changes);
    EmbeddedVolume volume(64 * kMiB);
    Ino synced{}, other{};
    std::string why, before;
    {
      const auto filesystem = std::move(*Filesystem::mount(volume.open(), {}, &why));
      synced = make_file(*filesystem, "synced");
      other = make_file(*filesystem, "other");
      std::byte byte{1};
      const LocalSlice slice{&byte, 1, 0};
      for (const Ino ino : {synced, other}) {
        ASSERT_TRUE(filesystem->write(ino, 0, std::span(&slice, 1), false, nullptr).ok());
        ASSERT_TRUE(set_old(*filesystem, ino));
      }
      before = dump_tree(*filesystem);
      for (const Ino ino : {synced, other}) ASSERT_TRUE(set_old(*filesystem, ino));
      ASSERT_TRUE(filesystem->unmount().ok());
    }
    bool is_synced = false;
    {
      auto client = volume.try_open(std::make_unique<StoppingBrick>(volume.brick(), changes, changes));
      ASSERT_TRUE(client.ok());
      auto mounted = Filesystem::mount(std::move(*client), {}, &why);
      if (mounted.ok()) {
        Filesystem& filesystem = **mounted;
        for (const Ino ino : {synced, other}) read_it(filesystem, ino);
        is_synced = filesystem.sync(synced).ok();
        ended = filesystem.unmount().ok();
      }
    }
    const auto filesystem = std::move(*Filesystem::mount(volume.open(), {}, &why));
    if (is_synced) {
      EXPECT_FALSE(is_old(*filesystem, synced));
    }
    if (ended) {
      EXPECT_FALSE(is_old(*filesystem, other));
    }
    EXPECT_EQ(dump_tree(*filesystem), before);
    ASSERT_TRUE(filesystem->unmount().ok());
  }
}

}  // namespace
}  // namespace brickfs
