// SPDX-License-Identifier: Apache-2.0
// A closed gate keeps only those who wait for it.
#include "transport/base/gate.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

namespace brickfs::testing {
namespace {

TEST(Gate, WhoIsInterruptedDoesNotWaitForItToOpen) {
  Gate gate;
  std::optional<Gate::Pass> within(gate);
  std::thread closes([&] { const Gate::Closed closed(gate); });
  while (Gate::Pass(gate, std::try_to_lock).entered().ok()) std::this_thread::yield();
  EXPECT_EQ(Gate::Pass(gate, std::try_to_lock).entered().code(), EAGAIN);
  Interruption signal;
  std::thread raises([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    signal.raise();
  });
  EXPECT_EQ(Gate::Pass(gate, &signal).entered().code(), EINTR);
  raises.join();
  within.reset();
  closes.join();
  EXPECT_TRUE(Gate::Pass(gate, std::try_to_lock).entered().ok());
  EXPECT_TRUE(gate.is_empty());
}

TEST(Gate, ItIsClosedOnlyOnceNobodyIsWithin) {
  Gate gate;
  std::atomic<int> within = 0;
  std::atomic<bool> ends = false;
  std::vector<std::thread> passers;
  for (int i = 0; i < 4; ++i) {
    passers.emplace_back([&] {
      while (!ends) {
        const Gate::Pass pass(gate);
        ++within;
        --within;
      }
    });
  }
  for (int i = 0; i < 200; ++i) {
    const Gate::Closed closed(gate);
    EXPECT_EQ(within.load(), 0);
  }
  ends = true;
  for (std::thread& passer : passers) passer.join();
}

}  // namespace
}  // namespace brickfs::testing
