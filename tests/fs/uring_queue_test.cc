// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "fs/fuse/cache/kernel_cache.h"
#include "fs/fuse/serve/uring_request.h"
#include "tests/support/mounted_volume.h"

namespace brickfs {
namespace {

class UringQueue : public ::testing::Test {
 protected:
  UringQueue() : cache_(*volume_) {
    for (size_t i = 0; i < kEntries; ++i) {
      auto entry = FuseUringRequest::make(volume_->volume(), cache_, operations_, 0, queue_);
      EXPECT_TRUE(entry.ok());
      entries_.push_back(std::move(*entry));
    }
  }

  static constexpr size_t kEntries = 4;
  MountedVolume volume_;
  KernelCache cache_;
  OperationCounters operations_;
  FuseUringQueue queue_;
  std::vector<std::unique_ptr<FuseUringRequest>> entries_;
};

TEST_F(UringQueue, WhatComesMeanwhileIsPassedToTheCollector) {
  ASSERT_TRUE(queue_.collect_or_pass(*entries_[0]));
  EXPECT_FALSE(queue_.collect_or_pass(*entries_[1]));
  EXPECT_FALSE(queue_.collect_or_pass(*entries_[2]));
  std::vector<FuseUringRequest*> passed;
  EXPECT_TRUE(queue_.take_passed(passed));
  EXPECT_EQ(passed, (std::vector{entries_[1].get(), entries_[2].get()}));
  EXPECT_FALSE(queue_.collect_or_pass(*entries_[3])) << "it goes on";
  EXPECT_TRUE(queue_.take_passed(passed));
  EXPECT_FALSE(queue_.take_passed(passed));
  EXPECT_EQ(passed.size(), 3u);
  EXPECT_TRUE(queue_.collect_or_pass(*entries_[3])) << "it has ended";
}

TEST_F(UringQueue, WhoResignsLeavesWhatWasPassed) {
  ASSERT_TRUE(queue_.collect_or_pass(*entries_[0]));
  ASSERT_FALSE(queue_.collect_or_pass(*entries_[1]));
  queue_.resign();
  EXPECT_EQ(queue_.wait(), entries_[1].get());
  EXPECT_TRUE(queue_.collect_or_pass(*entries_[2]));
}

TEST_F(UringQueue, AfterTheEndNothingIsLeft) {
  ASSERT_TRUE(queue_.leave(*entries_[0]));
  queue_.stop();
  EXPECT_FALSE(queue_.leave(*entries_[1]));
  EXPECT_EQ(queue_.wait(), entries_[0].get());
  EXPECT_EQ(queue_.wait(), nullptr);
}

// As the threads of a queue: each request is served once, and a thread without an entry gets one.
TEST_F(UringQueue, ThreadsServeEachRequestOnce) {
  constexpr int kRequests = 400'000;
  std::atomic<int> made = 0, served = 0;
  std::vector<std::thread> threads;
  for (size_t t = 0; t < kEntries; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937_64 random(t);
      std::vector<FuseUringRequest*> own = {entries_[t].get()};  // answered: each is about to get another request
      bool collecting = false;
      while (made < kRequests || collecting) {
        std::vector<FuseUringRequest*> requests;
        if (collecting) collecting = queue_.take_passed(requests);
        if (!collecting && own.empty()) {
          FuseUringRequest* const left = queue_.wait();
          if (left == nullptr) break;
          ++served;
          own.push_back(left);
        }
        const size_t some = own.size() - random() % std::max<size_t>(own.size(), 1);
        for (size_t i = 0; i < some && !own.empty(); ++i) {
          ++made;
          requests.push_back(own.back());
          own.pop_back();
        }
        const bool only = requests.size() == 1 && own.empty();
        for (FuseUringRequest* const entry : requests) {
          if (random() % 4 == 0) {
            if (!only && queue_.leave(*entry)) continue;
            if (collecting) queue_.resign();
            collecting = false;
          } else if (!collecting && !(collecting = queue_.collect_or_pass(*entry))) {
            continue;
          }
          ++served;
          own.push_back(entry);
        }
      }
      queue_.stop();
      while (queue_.wait() != nullptr) ++served;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(served, made);
}

}  // namespace
}  // namespace brickfs
