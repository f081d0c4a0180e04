// SPDX-License-Identifier: Apache-2.0
#include "server/peers/peer_counters.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <thread>
#include <vector>

namespace brickfs {
namespace {

using namespace std::chrono_literals;

TEST(PeerCounters, EachKindOfCallIsCountedByItself) {
  PeerCounters counters;
  std::set<std::string> names;
  for (const calls::NamedKind& call : calls::kKinds) {
    EXPECT_TRUE(names.insert(call.name).second) << call.name;
    counters.call(call.kind, 3us, false);
    counters.call(call.kind, 5ms, true);
  }
  for (const calls::NamedKind& call : calls::kKinds) {
    const LatencyCounts counts = counters.calls_of(call.kind);
    EXPECT_EQ(counts.count(), 2u) << call.name;
    EXPECT_EQ(counts.failures, 1u);
    EXPECT_EQ(counts.nanoseconds, 5'003'000u);
  }
}

TEST(PeerCounters, KindsThatNobodyKnowsAreNot) {
  PeerCounters counters;
  for (const size_t kind : {size_t{0}, calls::kKinds.size() + 1, calls::kKinds.size() + 2, size_t{999}, size_t{0xffff}})
    counters.call(static_cast<calls::Kind>(kind), 1us, true);
  for (const calls::NamedKind& call : calls::kKinds) EXPECT_EQ(counters.calls_of(call.kind).count(), 0u);
}

TEST(PeerCounters, RefusalsHaveReasons) {
  PeerCounters counters;
  for (const int code : {EACCES, EPERM, EPROTO, EBUSY, ENOENT, EIDRM, ESTALE, EUSERS, ENOBUFS, EIO}) {
    counters.refused(refused_with(code));
  }
  EXPECT_EQ(counters.refused_for(Refused::kSecret), 1u);
  EXPECT_EQ(counters.refused_for(Refused::kNoVolume), 2u);
  EXPECT_EQ(counters.refused_for(Refused::kSessions), 2u);
  EXPECT_EQ(counters.refused_for(Refused::kOther), 1u);
  EXPECT_EQ(std::set<std::string>(kRefusedNames.begin(), kRefusedNames.end()).size(), kRefusedNames.size());
}

TEST(PeerCounters, NothingIsLostBetweenThreads) {
  PeerCounters counters;
  std::vector<std::thread> threads;
  for (int number = 0; number < 12; ++number) {
    threads.emplace_back([&] {
      for (int i = 0; i < 10'000; ++i) counters.transferred(i % 2 == 0 ? Direction::kRead : Direction::kWrite, 4096);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(counters.transfers(Direction::kRead), 60'000u);
  EXPECT_EQ(counters.transferred_bytes(Direction::kWrite), 60'000u * 4096);
}

}  // namespace
}  // namespace brickfs
