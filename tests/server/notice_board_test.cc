// SPDX-License-Identifier: Apache-2.0
#include "server/service/notice_board.h"

#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "server/service/brick_service.h"
#include "server/service/server_limits.h"
#include "tests/support/tcp_test_brick.h"
#include "transport/brick/limits.h"

namespace brickfs {
namespace {

using namespace std::chrono_literals;
using calls::Notice;
using calls::Seen;
using std::chrono::steady_clock;
using testing::memory_config;
using testing::request_for;

const std::atomic<bool> kNever{false};

Notice look(NoticeBoard& board, uint64_t tag) {
  const Seen seen{.tag = tag};
  return board.wait(std::span(&seen, 1), steady_clock::now(), kNever).front();
}

Seen seen_of(uint64_t tag, const Notice& notice) { return {tag, notice.origin, notice.count}; }

TEST(NoticeBoard, TheTagNotifiedLongestAgoIsForgotten) {
  NoticeBoard board;
  for (uint64_t tag = 0; tag < limits::kTagsPerVolume; ++tag) board.notify(tag, tag);
  board.notify(0, 1000);
  const Seen oldest = seen_of(1, look(board, 1));
  auto waiting = std::async(std::launch::async, [&] {
    return board.wait(std::span(&oldest, 1), steady_clock::now() + 600s, kNever).front();
  });
  std::this_thread::sleep_for(20ms);
  board.notify(limits::kTagsPerVolume, 7);
  EXPECT_EQ(waiting.get().origin, 0u);  // who waits for it learns that
  EXPECT_EQ(look(board, 0).value, 1000u);
  EXPECT_EQ(look(board, limits::kTagsPerVolume).value, 7u);
  board.notify(1, 1);
  const Notice again = look(board, 1);
  EXPECT_EQ(again.count, oldest.count);
  EXPECT_NE(again.origin, oldest.origin);
  EXPECT_EQ(look(board, 2).count, 0u);
}

TEST(NoticeBoard, OnlyWhoWaitsForTheTagIsWoken) {
  NoticeBoard board;
  const Seen twice[] = {{.tag = 1}, {.tag = 1}, {.tag = 2}};
  auto waiting = std::async(std::launch::async, [&] { return board.wait(twice, steady_clock::now() + 600s, kNever); });
  std::this_thread::sleep_for(20ms);
  for (uint64_t i = 0; i < 1000; ++i) board.notify(3, i);
  EXPECT_EQ(waiting.wait_for(20ms), std::future_status::timeout);
  board.notify(1, 5);
  const auto told = waiting.get();
  EXPECT_EQ(told[0].value, 5u);
  EXPECT_EQ(told[1].value, 5u);
  EXPECT_EQ(told[2].count, 0u);
}

TEST(NoticeBoard, NobodyWhoWaitsHoldsUpWhoNotifies) {
  NoticeBoard board;
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> last{0};
  std::vector<std::thread> waiters;
  for (int i = 0; i < 20; ++i) {
    waiters.emplace_back([&] {
      Seen seen{.tag = 1};
      while (!stop) {
        const Notice now = board.wait(std::span(&seen, 1), steady_clock::now() + 600s, stop).front();
        EXPECT_GE(now.count, seen.count);
        EXPECT_LE(now.value, last.load());
        seen = seen_of(1, now);
        std::this_thread::sleep_for(1ms);
      }
    });
  }
  for (uint64_t i = 1; i <= 20'000; ++i) {
    last = i;
    board.notify(1, i);
  }
  EXPECT_EQ(look(board, 1).count, 20'000u);
  stop = true;
  board.wake_all();
  for (std::thread& waiter : waiters) waiter.join();
}

SessionPtr follow(BrickService& service, uint64_t client) {
  auto session = service.open_session(
      request_for(client, OpenMode::kFollow), [] {}, nullptr);
  EXPECT_EQ(session.code(), 0);
  return session.ok() ? *std::move(session) : nullptr;
}

// A wait is no sign of life.
TEST(NoticeBoard, ASilentSessionIsCutOffWhileItWaits) {
  const auto service = *BrickService::open(memory_config(2), nullptr);
  const auto session = follow(*service, 1);
  auto waiting = std::async(std::launch::async, [&] {
    const Seen seen{.tag = 1};
    return session->wait_for_notices(std::span(&seen, 1), limits::kWaitMost).code();
  });
  const auto began = steady_clock::now();
  service->expire_silent(began);
  EXPECT_EQ(waiting.wait_for(50ms), std::future_status::timeout);
  service->expire_silent(began + limits::kLease + 1s);
  ASSERT_EQ(waiting.wait_for(60s), std::future_status::ready);
  EXPECT_EQ(waiting.get(), ESTALE);
  EXPECT_TRUE(session->ended());
}

TEST(NoticeBoard, AVolumeHasSoManyFollowers) {
  const auto service = *BrickService::open(memory_config(2), nullptr);
  std::vector<SessionPtr> followers;
  for (uint64_t i = 0; i < limits::kFollowers; ++i) followers.push_back(follow(*service, i + 1));
  const auto more = service->open_session(
      request_for(1000, OpenMode::kFollow), [] {}, nullptr);
  EXPECT_EQ(more.code(), EUSERS);
  EXPECT_EQ(service->numbers().readers, limits::kFollowers);
  followers.pop_back();
  EXPECT_NE(follow(*service, 1000), nullptr);
}

}  // namespace
}  // namespace brickfs
