// SPDX-License-Identifier: Apache-2.0
#include "transport/remote/call_channel.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "tests/support/silent_channel.h"

namespace brickfs {
namespace {

using namespace std::chrono_literals;

// The late answer to the call that was given up would be taken for that to the next one. Who looks when the turn is
// free comes at the worst moment.
TEST(CallChannel, IsNotUsedAgainAfterACallWithoutAnAnswer) {
  constexpr int kRounds = 300;
  constexpr int kOthers = 3;
  for (int round = 0; round < kRounds; ++round) {
    auto made = std::make_unique<testing::SilentChannel>();
    const testing::SilentChannel& silent = *made;
    CallChannel channel(std::move(made));
    std::vector<std::thread> others;
    for (int i = 0; i < kOthers; ++i) {
      others.emplace_back([&] {
        while (silent.sent() == 0) std::this_thread::yield();
        while (channel.busy()) {
        }
        EXPECT_EQ(channel.call(2, calls::Renew{}, 1ms).code(), ENOTCONN);
      });
    }
    EXPECT_EQ(channel.call(1, calls::Renew{}, 1ms).code(), ETIMEDOUT);
    for (std::thread& other : others) other.join();
    ASSERT_EQ(silent.sent(), 1u) << "round " << round;
  }
}

}  // namespace
}  // namespace brickfs
