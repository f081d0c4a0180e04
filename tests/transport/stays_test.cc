// SPDX-License-Identifier: Apache-2.0
#include "transport/base/stays.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <thread>
#include <utility>
#include <vector>

namespace brickfs {
namespace {

TEST(Stays, WhoComesLaterHoldsUpNobodyWhoWaitsForThoseOfBefore) {
  Stays stays;
  const size_t before = stays.enter();
  Stays::Leaving leaving;
  EXPECT_FALSE(leaving.over(stays));
  // In each place of others there is always somebody from now on.
  std::promise<void> end;
  const std::shared_future<void> ended = end.get_future().share();
  std::vector<std::thread> others;
  std::atomic<size_t> within{0};
  while (within.load() < 8) {
    std::promise<bool> is_other;
    auto told = is_other.get_future();
    others.emplace_back([&stays, &within, before, ended, is_other = std::move(is_other)]() mutable {
      const size_t place = stays.enter();
      if (place == before) {
        stays.leave(place);
        return is_other.set_value(false);
      }
      within.fetch_add(1);
      is_other.set_value(true);
      ended.wait();
      stays.leave(place);
    });
    static_cast<void>(told.get());
  }
  EXPECT_FALSE(leaving.over(stays)) << "who was within still is";
  stays.leave(before);
  EXPECT_TRUE(leaving.over(stays));
  EXPECT_FALSE(stays.none());
  EXPECT_FALSE(Stays::Leaving().over(stays)) << "for what is taken away now the others count";
  end.set_value();
  for (std::thread& other : others) other.join();
  EXPECT_TRUE(Stays::Leaving().over(stays));
}

}  // namespace
}  // namespace brickfs
