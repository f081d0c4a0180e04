// SPDX-License-Identifier: Apache-2.0
#include "transport/base/guard.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <thread>
#include <utility>
#include <vector>

namespace brickfs {
namespace {

TEST(GuardCount, WhoComesLaterHoldsUpNobodyWhoWaitsForThoseOfBefore) {
  GuardCount guards;
  const size_t before = guards.enter();
  GuardCount::GracePeriod grace;
  EXPECT_FALSE(grace.over(guards));
  // In each place of others there is always somebody from now on.
  std::promise<void> end;
  const std::shared_future<void> ended = end.get_future().share();
  std::vector<std::thread> others;
  std::atomic<size_t> within{0};
  while (within.load() < 8) {
    std::promise<bool> is_other;
    auto told = is_other.get_future();
    others.emplace_back([&guards, &within, before, ended, is_other = std::move(is_other)]() mutable {
      const size_t place = guards.enter();
      if (place == before) {
        guards.leave(place);
        return is_other.set_value(false);
      }
      within.fetch_add(1);
      is_other.set_value(true);
      ended.wait();
      guards.leave(place);
    });
    static_cast<void>(told.get());
  }
  EXPECT_FALSE(grace.over(guards)) << "who was within still is";
  guards.leave(before);
  EXPECT_TRUE(grace.over(guards));
  EXPECT_FALSE(guards.none());
  EXPECT_FALSE(GuardCount::GracePeriod().over(guards)) << "for what is taken away now the others count";
  end.set_value();
  for (std::thread& other : others) other.join();
  EXPECT_TRUE(GuardCount::GracePeriod().over(guards));
}

}  // namespace
}  // namespace brickfs
