// SPDX-License-Identifier: Apache-2.0
// What tests do to bricks is done while others use them.
#include "tests/support/restarting_brick.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <thread>

#include "tests/support/brick_contract.h"
#include "tests/support/tcp_test_brick.h"

namespace brickfs {
namespace {

using std::chrono::milliseconds;

// Its store is that of one process at a time.
TEST(RestartingBrick, IsNotStartedAgainBeforeThoseWhoAskItPastItsClientLetItGo) {
  RestartingBrick brick(4, 4);
  for (int round = 0; round < 3; ++round) {
    std::promise<void> has_it;
    std::thread asks([&] {
      const auto past = make_embedded_brick(brick.service());
      has_it.set_value();
      std::this_thread::sleep_for(milliseconds(50));
      EXPECT_EQ(past->open(testing::request_for(9, OpenMode::kFollow), nullptr).code(), 0);
    });
    has_it.get_future().wait();
    round == 0 ? brick.restart() : brick.copy_store();
    EXPECT_NE(brick.service(), nullptr);
    EXPECT_EQ(brick.make_brick()->open(testing::request_for(1), nullptr).code(), 0);
    asks.join();
  }
}

TEST(RestartingBrick, ACallbackThatWasTakenAwayRunsNoMore) {
  RestartingBrick brick(4, 4);
  const auto client = brick.make_brick();
  ASSERT_TRUE(client->open(testing::request_for(1), nullptr).ok());
  const Handle handle = testing::alloc_and_map(*client, 0, 1).front();
  std::atomic<bool> stop{false};
  std::thread works([&] {
    while (!stop) {
      EXPECT_TRUE(testing::write(*client, handle, 0, testing::pattern(64, 1)).ok());
      EXPECT_TRUE(client->commit({}).ok());
    }
  });
  for (int round = 0; round < 50; ++round) {
    auto called = std::make_unique<std::atomic<int>>(0);
    const auto call = [&called = *called] {
      ++called;
      std::this_thread::sleep_for(milliseconds(1));
    };
    brick.faults().set_before_transfers(call);
    brick.faults().set_after_commit(call);
    std::this_thread::sleep_for(milliseconds(3));
    brick.faults().set_before_transfers(nullptr);
    brick.faults().set_after_commit(nullptr);
    *called = -1'000'000;
    std::this_thread::sleep_for(milliseconds(1));
    EXPECT_EQ(*called, -1'000'000);
  }
  stop = true;
  works.join();
}

}  // namespace
}  // namespace brickfs
