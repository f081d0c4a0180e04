// SPDX-License-Identifier: Apache-2.0
#include "fs/fuse/cache/writeback_cache.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <set>
#include <thread>
#include <vector>

#include "tests/support/mounted_volume.h"

namespace brickfs {
namespace {

constexpr uint64_t kDirty = 4 * kMiB;  // the kernel may have so much

// A kernel that has nothing to write back, but is told to.
class WritebackCacheTest : public ::testing::Test {
 protected:
  WritebackCacheTest()
      : cache_(*volume_, {.write_back =
                              [this](Ino ino) {
                                MutexLock lock(mutex_);
                                written_.insert(ino);
                              },
                          .forget_attributes = [this](Ino) { ++forgotten_; }}) {}

  // A kernel that cannot have less, and one that can.
  void keep_room() {
    cache_.keep_room(kDirty, [](uint64_t) { return kDirty; });
  }
  void keep_less_room() {
    cache_.keep_room(kDirty, [this](uint64_t bytes) {
      allowed_ = bytes;
      return bytes;
    });
  }
  Result<uint64_t> write(Ino ino, uint64_t offset, uint64_t length, bool by_kernel) {
    std::vector<std::byte> bytes(length, std::byte{7});
    const LocalSlice slice{bytes.data(), static_cast<uint32_t>(bytes.size()), 0};
    return volume_->write(ino, offset, std::span(&slice, 1), false, nullptr, by_kernel);
  }
  uint64_t free_bytes() { return volume_->stat().free_units * kUnitBytes; }
  // By ordinary writes, to less than that.
  void fill(Ino ino, uint64_t free = 2 * kDirty) {
    for (; free_bytes() >= free; filled_ += kMiB) ASSERT_TRUE(write(ino, filled_, kMiB, false).ok());
  }
  std::set<Ino> written() {
    MutexLock lock(mutex_);
    return written_;
  }

  MountedVolume volume_;
  Mutex mutex_;
  std::set<Ino> written_ ABSL_GUARDED_BY(mutex_);
  std::atomic<int> forgotten_ = 0;
  std::atomic<uint64_t> allowed_ = kDirty;  // the kernel may have
  uint64_t filled_ = 0;
  WritebackCache cache_;
};

TEST_F(WritebackCacheTest, WithRoomNothingIsAsked) {
  const Ino ino = make_file(*volume_, "file");
  keep_room();
  EXPECT_TRUE(cache_.before_write(ino, nullptr).ok());
  cache_.written(ino, kMiB, Status());
  EXPECT_TRUE(written().empty());
  EXPECT_EQ(forgotten_, 0);
}

TEST_F(WritebackCacheTest, WhenRoomGetsShortAllIsWrittenBackFirst) {
  const Ino ino = make_file(*volume_, "file");
  const Ino other = make_file(*volume_, "other");
  keep_room();
  fill(make_file(*volume_, "filling"));
  ASSERT_TRUE(volume_->is_short_for_writeback());
  EXPECT_TRUE(written().contains(ino));
  EXPECT_TRUE(written().contains(other)) << "it may have been written to";
  EXPECT_TRUE(write(ino, 0, kMiB, false).ok()) << "from then on everybody gets room";
  EXPECT_TRUE(write(ino, 0, kMiB, true).ok());
}

TEST_F(WritebackCacheTest, WhenRoomGetsShortTheKernelMayHaveLess) {
  const Ino ino = make_file(*volume_, "file");
  const Ino filling = make_file(*volume_, "filling");
  keep_less_room();
  fill(filling);
  EXPECT_LT(allowed_, kDirty / 4);
  EXPECT_TRUE(written().contains(ino)) << "what it had beyond that";
  cache_.written(ino, kUnitBytes, Status());
  EXPECT_TRUE(cache_.before_write(ino, nullptr).ok());
  EXPECT_EQ(forgotten_, 0) << "writes go on at their speed";
  fill(filling, 2 * kMiB);
  EXPECT_EQ(allowed_, 256 * kKiB) << "and no less";
  cache_.written(ino, kUnitBytes, Status());
  EXPECT_EQ(forgotten_, 1) << "now each is to ask";

  AttributeChange empty;
  empty.size_bytes = 0;
  ASSERT_TRUE(volume_->set_attributes(filling, empty, root_caller()).ok());
  ASSERT_TRUE(volume_->sync_all().ok());
  ASSERT_TRUE(write(ino, 0, kMiB, true).ok());
  cache_.written(ino, kMiB, Status());
  while (allowed_ != kDirty) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

TEST_F(WritebackCacheTest, OnAFullVolumeTheNextWriteTells) {
  const Ino ino = make_file(*volume_, "file");
  keep_room();
  fill(make_file(*volume_, "filling"));
  cache_.written(ino, kUnitBytes, Status());
  EXPECT_EQ(forgotten_, 1) << "so that the kernel asks";
  EXPECT_TRUE(cache_.before_write(ino, nullptr).ok()) << "it may be written over what is there";
  EXPECT_EQ(forgotten_, 2) << "so that it asks again";

  cache_.written(ino, 3 * kMiB, Error(ENOSPC, "volume full"));
  EXPECT_EQ(volume_->get_attributes(ino)->size_bytes, 3 * kMiB) << "as long as its writer thinks it is";
  EXPECT_EQ(cache_.before_write(ino, nullptr).code(), ENOSPC);
  EXPECT_TRUE(cache_.before_write(ino, nullptr).ok()) << "told once";
  cache_.written(ino, kMiB, Error(EIO, "gone"));
  EXPECT_EQ(volume_->get_attributes(ino)->size_bytes, 3 * kMiB) << "no shorter than it is";
  cache_.forget_lost(ino);
  EXPECT_TRUE(cache_.before_write(ino, nullptr).ok());
}

TEST_F(WritebackCacheTest, RoomComesBack) {
  const Ino ino = make_file(*volume_, "file");
  const Ino filling = make_file(*volume_, "filling");
  keep_room();
  fill(filling);
  AttributeChange empty;
  empty.size_bytes = 0;
  ASSERT_TRUE(volume_->set_attributes(filling, empty, root_caller()).ok());
  ASSERT_TRUE(write(ino, 0, kMiB, true).ok());
  EXPECT_FALSE(volume_->is_short_for_writeback());
}

}  // namespace
}  // namespace brickfs
