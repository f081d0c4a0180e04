// SPDX-License-Identifier: Apache-2.0
// One sync at a time, shared by who waits for it; and what becomes of all of them when one fails.
#include "server/store/group_sync.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <thread>
#include <vector>

namespace brickfs {
namespace {

// A device whose syncs wait until they are let go, with an answer, once: as fdatasync tells of lost bytes.
class SlowDevice final : public StoreDevice {
 public:
  Result<uint64_t> size_bytes() const override { return uint64_t{0}; }
  Status read(uint64_t, std::span<std::byte>) const override { return {}; }
  Status write(uint64_t, std::span<const std::byte>) override { return {}; }
  Status reserve(uint64_t, uint64_t) override { return {}; }
  Status punch(uint64_t, uint64_t) override { return {}; }
  Status grow(uint64_t) override { return {}; }
  void forget_cache() override {}
  uint64_t room_bytes() const override { return UINT64_MAX; }

  Status sync() override {
    MutexLock lock(mutex_);
    ++begun_;
    EXPECT_EQ(begun_, ended_ + 1) << "two at a time";
    changed_.notify_all();
    while (answers_.size() < begun_) changed_.wait(lock);
    ++ended_;
    const int code = answers_[begun_ - 1];
    return code == 0 ? Status() : Error(code, "syncing");
  }
  void let_one_go(int code) {
    MutexLock lock(mutex_);
    answers_.push_back(code);
    changed_.notify_all();
  }
  void wait_for(size_t begun) {
    MutexLock lock(mutex_);
    while (begun_ < begun) changed_.wait(lock);
  }
  size_t begun() {
    MutexLock lock(mutex_);
    return begun_;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  size_t begun_ = 0;
  size_t ended_ = 0;
  std::vector<int> answers_;
};

class GroupSyncTest : public ::testing::Test {
 protected:
  ~GroupSyncTest() override {
    for (std::thread& thread : threads_) thread.join();
  }
  void sync_in_background(int* code) {
    threads_.emplace_back([this, code] { *code = sync_.sync().code(); });
  }
  void join() {
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }

  SlowDevice device_;
  GroupSync sync_{device_};
  std::vector<std::thread> threads_;
};

TEST_F(GroupSyncTest, WhoComesWhileOneRunsSharesTheNext) {
  int codes[5] = {-1, -1, -1, -1, -1};
  sync_in_background(&codes[0]);
  device_.wait_for(1);
  for (int i = 1; i < 5; ++i) sync_in_background(&codes[i]);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // until they wait
  device_.let_one_go(0);
  device_.wait_for(2);
  device_.let_one_go(0);
  join();
  for (const int code : codes) EXPECT_EQ(code, 0);
  EXPECT_EQ(device_.begun(), 2u);
}

TEST_F(GroupSyncTest, AFailureIsToldToEverybodyAndForGood) {
  int codes[3] = {-1, -1, -1};
  sync_in_background(&codes[0]);
  device_.wait_for(1);
  for (int i = 1; i < 3; ++i) sync_in_background(&codes[i]);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  device_.let_one_go(EIO);  // once: the next would succeed without the bytes
  device_.let_one_go(0);
  join();
  for (const int code : codes) EXPECT_EQ(code, EIO);
  EXPECT_TRUE(sync_.failed());
  EXPECT_EQ(sync_.sync().code(), EIO);
  EXPECT_EQ(device_.begun(), 1u);
}

// An entry that is written while a sync runs may not be on the disk when that ends.
TEST_F(GroupSyncTest, ASyncUnderWayDoesNotCountForTheTable) {
  int code = -1;
  sync_in_background(&code);
  device_.wait_for(1);
  sync_.table_written();
  device_.let_one_go(0);
  join();
  EXPECT_EQ(code, 0);
  EXPECT_FALSE(sync_.table_is_durable());
  device_.let_one_go(0);
  EXPECT_TRUE(sync_.sync().ok());
  EXPECT_TRUE(sync_.table_is_durable());
}

}  // namespace
}  // namespace brickfs
