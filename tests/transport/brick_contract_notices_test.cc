// SPDX-License-Identifier: Apache-2.0
// The contract of transport/brick/brick.h, for every implementation of it: sessions that follow, and notifications.
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <thread>

#include "tests/support/brick_contract.h"

namespace brickfs::testing {
namespace {

using namespace std::chrono_literals;
using calls::Notice;
using calls::Seen;
using std::chrono::steady_clock;

class BrickNotices : public BrickContract {
 protected:
  static OpenRequest follower(uint64_t client) { return request(client, OpenMode::kFollow); }

  // As soon as there is something that `seen` is not, which it is brought up to.
  static Notice next(Brick& brick, Seen& seen, std::chrono::milliseconds patience = limits::kWaitMost) {
    const auto told = brick.wait_for_notices(std::span(&seen, 1), patience);
    EXPECT_EQ(told.code(), 0);
    if (!told.ok()) return {};
    seen.origin = told->front().origin;
    seen.count = told->front().count;
    return told->front();
  }
};
BRICK_CONTRACT_FOR_EVERY_KIND(BrickNotices);

TEST_P(BrickNotices, AFollowerReadsBesideTheWriterAndChangesNothing) {
  start(4, 4);
  auto early = open(follower(7));
  auto writer = open(1);
  auto late = open(follower(8));
  ASSERT_TRUE(writer->alloc(blocks(0, 2)).ok());
  const Handle written = map_one(*writer, 0);
  for (Brick* reader : {early.get(), late.get()}) {
    const Handle handle = map_one(*reader, 0, Access::kRead);
    for (unsigned seed = 1; seed < 4; ++seed) {
      ASSERT_TRUE(write(*writer, written, 100, pattern(64, seed)).ok());
      EXPECT_EQ(read(*reader, handle, 100, 64), pattern(64, seed));
    }
    EXPECT_EQ(read(*reader, handle, 0, 64), std::vector<std::byte>(64));
  }
  auto reader = open(follower(9));
  EXPECT_EQ(reader->map(blocks(0), Access::kReadWrite).code(), EACCES);
  EXPECT_EQ(reader->alloc(blocks(3)).code(), EACCES);
  EXPECT_EQ(reader->free(blocks(0)).code(), EACCES);
  EXPECT_EQ(reader->commit({}).code(), EACCES);
  EXPECT_EQ(list_all(*reader), std::vector<BlockRange>{blocks(0, 2)});
  ASSERT_TRUE(writer->close().ok());
  EXPECT_FALSE(reader->stat()->holder.has_value());
  EXPECT_TRUE(open(2)->alloc(blocks(3)).ok());
}

TEST_P(BrickNotices, WhatTheWriterFreesIsTakenFromFollowers) {
  start(4, 4);
  auto writer = open(1);
  auto reader = open(follower(7));
  auto other = open(follower(8));
  ASSERT_TRUE(writer->alloc(blocks(0, 2)).ok());
  ASSERT_TRUE(write(*writer, map_one(*writer, 1), 0, pattern(64, 1)).ok());
  map_one(*reader, 0, Access::kRead);
  map_one(*other, 0, Access::kRead);
  const Handle stays = map_one(*reader, 1, Access::kRead);
  EXPECT_EQ(writer->free(blocks(0)).code(), 0);
  EXPECT_EQ(reader->map(blocks(0), Access::kRead).code(), ENOENT);
  EXPECT_EQ(read(*reader, stays, 0, 64), pattern(64, 1));
}

// Only where more is stored than fits into memory.
TEST_P(BrickNotices, MemoryThatTheWriterNeedsIsTakenFromFollowers) {
  if (!durable()) return;
  start(2, 4);
  auto writer = open(1);
  auto reader = open(follower(7));
  ASSERT_TRUE(writer->alloc(blocks(0, 4)).ok());
  for (const unsigned number : {2u, 3u}) {
    ASSERT_TRUE(write(*writer, map_one(*writer, number), 0, pattern(64, number)).ok());
    ASSERT_TRUE(writer->unmap(blocks(number)).ok());
  }
  map_one(*reader, 0, Access::kRead);
  map_one(*reader, 1, Access::kRead);
  EXPECT_EQ(read(*writer, map_one(*writer, 2), 0, 64), pattern(64, 2));
  EXPECT_EQ(read(*reader, map_one(*reader, 3, Access::kRead), 0, 64), pattern(64, 3));
  EXPECT_EQ(reader->map(blocks(1), Access::kRead).code(), ENOMEM) << "of the writer's nothing is taken";
}

TEST_P(BrickNotices, WhoIsBoundToAHolderGoesWithHim) {
  start(4, 4);
  Session held;
  auto holder = open(1, &held);
  OpenRequest bound = follower(7);
  bound.bound = true;
  bound.resume = held.epoch;
  auto reader = open(bound);
  auto free_one = open(follower(8));
  ASSERT_TRUE(holder->alloc(blocks(0)).ok());
  const Handle handle = map_one(*reader, 0, Access::kRead);
  EXPECT_EQ(read(*reader, handle, 0, 64), std::vector<std::byte>(64));
  OpenRequest again = request(1);
  again.resume = held.epoch;
  holder.reset();
  holder = open_after_loss(again);
  EXPECT_EQ(read(*reader, handle, 0, 64), std::vector<std::byte>(64)) << "it is the same one";
  OpenRequest thief = request(2);
  thief.steal = true;
  auto taker = open(thief);
  EXPECT_TRUE(is_lost_session(reader->stat().code()));
  EXPECT_TRUE(free_one->stat().ok());
  EXPECT_EQ(connect()->open(bound, nullptr).code(), ESTALE);
}

TEST_P(BrickNotices, AFollowerStaysWhoeverTakesTheVolume) {
  start(4, 4);
  auto writer = open(1);
  ASSERT_TRUE(writer->alloc(blocks(0)).ok());
  auto reader = open(follower(7));
  const Handle handle = map_one(*reader, 0, Access::kRead);
  OpenRequest steal = request(2);
  steal.steal = true;
  auto thief = open(steal);
  ASSERT_TRUE(write(*thief, map_one(*thief, 0), 0, pattern(64, 5)).ok());
  EXPECT_EQ(read(*reader, handle, 0, 64), pattern(64, 5));
}

TEST_P(BrickNotices, AFollowerWhoComesBackReplacesHimself) {
  start(4, 4);
  auto writer = open(1);
  ASSERT_TRUE(writer->alloc(blocks(0)).ok());
  auto former = open(follower(7));
  map_one(*former, 0, Access::kRead);
  auto back = open(follower(7));
  EXPECT_TRUE(writer->free(blocks(0)).ok());
  EXPECT_TRUE(eventually([&] { return is_lost_session(former->stat().code()); }));
  EXPECT_TRUE(back->stat().ok());
}

// Each message is where the former was: who reads what was not yet written, or is written already, is found out.
TEST_P(BrickNotices, WhatWasWrittenBeforeIsSeen) {
  constexpr int kMessages = 300;
  start(4, 4);
  auto writer = open(1);
  ASSERT_TRUE(writer->alloc(blocks(0)).ok());
  const Handle written = map_one(*writer, 0);
  auto reader = open(follower(7));
  std::thread reading([&] {
    const Handle handle = map_one(*reader, 0, Access::kRead);
    Seen seen{.tag = 1};
    for (int i = 0; i < kMessages; ++i) {
      const Notice notice = next(*reader, seen);
      ASSERT_EQ(notice.count, static_cast<uint64_t>(i + 1));
      EXPECT_EQ(read(*reader, handle, 4096, 10'000), pattern(10'000, static_cast<unsigned>(notice.value)));
      ASSERT_TRUE(reader->notify(2, notice.value).ok());
    }
  });
  Seen taken{.tag = 2};
  for (int i = 0; i < kMessages; ++i) {
    const auto value = static_cast<unsigned>(i * 31 + 7);
    ASSERT_TRUE(write(*writer, written, 4096, pattern(10'000, value)).ok());
    ASSERT_TRUE(writer->notify(1, value).ok());
    ASSERT_EQ(next(*writer, taken).value, value);
  }
  reading.join();
}

TEST_P(BrickNotices, WhoComesLateGetsTheLastValueAndTheCount) {
  start(4, 4);
  auto writer = open(1);
  for (uint64_t value = 1; value <= 5; ++value) ASSERT_TRUE(writer->notify(9, value * 100).ok());
  ASSERT_TRUE(writer->notify(UINT64_MAX, UINT64_MAX).ok());
  auto reader = open(follower(7));
  Seen seen{.tag = 9};
  Notice notice = next(*reader, seen);
  EXPECT_EQ(notice.count, 5u);
  EXPECT_EQ(notice.value, 500u);
  for (uint64_t value = 6; value <= 8; ++value) ASSERT_TRUE(writer->notify(9, value * 100).ok());
  notice = next(*reader, seen);
  EXPECT_EQ(notice.count, 8u);
  EXPECT_EQ(notice.value, 800u);
  Seen other{.tag = UINT64_MAX};
  EXPECT_EQ(next(*reader, other).value, UINT64_MAX);
}

TEST_P(BrickNotices, AWaitLastsAsLongAsItMay) {
  start(4, 4);
  auto reader = open(follower(7));
  Seen seen{.tag = 1};
  const auto before = steady_clock::now();
  EXPECT_EQ(next(*reader, seen, 300ms).count, 0u);
  EXPECT_GE(steady_clock::now() - before, 300ms);
  EXPECT_EQ(next(*reader, seen, 0ms).count, 0u);
  EXPECT_LT(steady_clock::now() - before, 60s);
  EXPECT_EQ(reader->wait_for_notices({}, 1s).code(), EINVAL);
  EXPECT_EQ(reader->wait_for_notices(std::vector<Seen>(limits::kTagsPerWait + 1), 1s).code(), EINVAL);
  EXPECT_EQ(reader->wait_for_notices(std::span(&seen, 1), limits::kWaitMost + 1ms).code(), EINVAL);
}

TEST_P(BrickNotices, AnyOfSeveralTagsEndsAWait) {
  start(4, 4);
  auto writer = open(1);
  auto reader = open(follower(7));
  std::vector<Seen> seen(limits::kTagsPerWait);
  for (uint64_t i = 0; i < seen.size(); ++i) seen[i].tag = i;
  auto waiting = std::async(std::launch::async, [&] { return reader->wait_for_notices(seen, 10s); });
  std::this_thread::sleep_for(50ms);
  ASSERT_TRUE(writer->notify(seen.size(), 1).ok());  // none of them
  ASSERT_TRUE(writer->notify(40, 7).ok());
  const auto told = waiting.get();
  ASSERT_TRUE(told.ok());
  for (uint64_t i = 0; i < told->size(); ++i) EXPECT_EQ((*told)[i].count, i == 40 ? 1u : 0u) << i;
  EXPECT_EQ((*told)[40].value, 7u);
}

TEST_P(BrickNotices, OtherCallsGoOnBesideAWait) {
  start(4, 4);
  auto writer = open(1);
  auto waiting = std::async(std::launch::async, [&] {
    Seen seen{.tag = 1};
    return next(*writer, seen).value;
  });
  std::this_thread::sleep_for(50ms);
  const auto before = steady_clock::now();
  ASSERT_TRUE(writer->alloc(blocks(0)).ok());
  ASSERT_TRUE(write(*writer, map_one(*writer, 0), 0, pattern(64, 1)).ok());
  ASSERT_TRUE(writer->commit({}).ok());
  ASSERT_TRUE(writer->stat().ok());
  EXPECT_LT(steady_clock::now() - before, 60s);
  EXPECT_EQ(waiting.wait_for(0s), std::future_status::timeout);
  ASSERT_TRUE(writer->notify(1, 77).ok());  // by the same session
  EXPECT_EQ(waiting.get(), 77u);
}

TEST_P(BrickNotices, ManyWaitAtATime) {
  start(4, 4);
  auto writer = open(1);
  std::vector<std::unique_ptr<Brick>> readers;
  std::vector<std::future<uint64_t>> waiting;
  for (uint64_t i = 0; i < 6; ++i) {
    readers.push_back(open(follower(10 + i)));
    for (uint64_t tag = 0; tag < 2; ++tag) {
      waiting.push_back(std::async(std::launch::async, [&brick = *readers.back(), tag] {
        Seen seen{.tag = tag};
        return next(brick, seen).value;
      }));
    }
  }
  ASSERT_TRUE(writer->notify(0, 100).ok());
  ASSERT_TRUE(writer->notify(1, 101).ok());
  for (size_t i = 0; i < waiting.size(); ++i) EXPECT_EQ(waiting[i].get(), 100 + i % 2);
}

TEST_P(BrickNotices, AnObserverHasNone) {
  start(4, 4);
  auto observer = open(request(5, OpenMode::kObserve));
  EXPECT_EQ(observer->notify(1, 1).code(), EACCES);
  const Seen seen{.tag = 1};
  EXPECT_EQ(observer->wait_for_notices(std::span(&seen, 1), 0ms).code(), EACCES);
}

TEST_P(BrickNotices, VolumesHaveTheirOwn) {
  start(4, 4, {{"other", {}}});
  auto writer = open(1);
  OpenRequest elsewhere = follower(7);
  elsewhere.volume = "other";
  auto reader = open(elsewhere);
  ASSERT_TRUE(writer->notify(1, 1).ok());
  Seen seen{.tag = 1};
  EXPECT_EQ(next(*reader, seen, 0ms).count, 0u);
}

TEST_P(BrickNotices, AWaitEndsWithItsSession) {
  start(4, 4);
  auto writer = open(1);
  std::atomic<bool> waits{false};
  auto waiting = std::async(std::launch::async, [&] {
    const Seen seen{.tag = 1};
    waits = true;
    return writer->wait_for_notices(std::span(&seen, 1), 10s).code();
  });
  EXPECT_TRUE(eventually([&] { return waits.load(); }));
  std::this_thread::sleep_for(50ms);
  const auto before = steady_clock::now();
  OpenRequest steal = request(2);
  steal.steal = true;
  auto thief = open(steal);
  EXPECT_TRUE(is_lost_session(waiting.get()));
  EXPECT_LT(steady_clock::now() - before, 60s);
}

TEST_P(BrickNotices, WhatABrickForgotWithItsStopIsLearnt) {
  start(4, 4);
  auto writer = open(1);
  auto reader = open(follower(7));
  ASSERT_TRUE(writer->notify(1, 5).ok());
  ASSERT_TRUE(writer->notify(2, 6).ok());
  Seen first{.tag = 1};
  Seen second{.tag = 2};
  next(*reader, first);
  next(*reader, second);
  reader.reset();
  writer.reset();
  brick().restart();
  reader = open_after_loss(follower(7));
  writer = open_after_loss(request(1));
  const uint64_t before = first.origin;
  const Notice gone = next(*reader, first);  // at once
  EXPECT_EQ(gone.count, 0u);
  EXPECT_NE(gone.origin, before);
  ASSERT_TRUE(writer->notify(2, 7).ok());  // as often as before
  const Notice anew = next(*reader, second);
  EXPECT_EQ(anew.count, 1u);
  EXPECT_EQ(anew.value, 7u);
}

}  // namespace
}  // namespace brickfs::testing
