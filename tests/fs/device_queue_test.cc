// SPDX-License-Identifier: Apache-2.0
// Requests are datagrams of one byte here; as from /dev/fuse, a read() takes one.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "fs/fuse/serve/device_source.h"

namespace brickfs {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

class DeviceQueue : public ::testing::Test {
 protected:
  static constexpr int kThreads = 6;
  using Serve = std::function<void(char request)>;

  DeviceQueue() {
    int ends[2] = {-1, -1};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
    kernel_ = UniqueFd(ends[0]);
    device_ = UniqueFd(ends[1]);
    ::fcntl(ends[1], F_SETFL, O_NONBLOCK);
  }
  ~DeviceQueue() override { stop(); }

  void start(Serve serve) {
    queue_ = std::make_unique<FuseDeviceQueue>(device_.get());
    serve_ = std::move(serve);
    for (int i = 0; i < kThreads; ++i) threads_.emplace_back([this] { run(); });
  }
  void stop() {
    if (!queue_) return;
    queue_->stop();
    for (auto& thread : threads_) thread.join();
    threads_.clear();
    queue_.reset();
  }
  void request(char kind) { EXPECT_EQ(::write(kernel_.get(), &kind, 1), 1); }
  void await_served(uint64_t count) {
    const auto latest = steady_clock::now() + std::chrono::seconds(30);
    while (served_ < count && steady_clock::now() < latest) std::this_thread::yield();
    EXPECT_GE(served_, count);
  }
  // One after the other. Returns how many threads served them.
  size_t request_in_turn(int count) {
    {
      MutexLock lock(mutex_);
      servers_.clear();
    }
    for (int i = 0; i < count; ++i) {
      const uint64_t before = served_;
      request('a');
      await_served(before + 1);
    }
    MutexLock lock(mutex_);
    return servers_.size();
  }

  std::atomic<uint64_t> served_{0};
  std::atomic<int> ended_{0};
  UniqueFd kernel_;
  std::unique_ptr<FuseDeviceQueue> queue_;
  std::vector<std::thread> threads_;

 private:
  void run() {
    FuseDeviceQueue::Member member(*queue_);
    while (queue_->wait_for_turn(member).ok()) {
      char request = 0;
      ssize_t got = 0;
      while ((got = ::read(device_.get(), &request, 1)) < 0 && !queue_->is_stopping()) queue_->wait_for_more();
      if (got == 0) break;  // the far end is closed
      if (got < 0) continue;
      queue_->begin_turn(member);
      {
        MutexLock lock(mutex_);
        servers_.insert(std::this_thread::get_id());
      }
      if (request == 'l') queue_->hand_over(member);
      serve_(request);
      ++served_;
    }
    ++ended_;
  }

  UniqueFd device_;
  Serve serve_;
  Mutex mutex_;
  std::set<std::thread::id> servers_ ABSL_GUARDED_BY(mutex_);
};

TEST_F(DeviceQueue, OneThreadServesWhatComesOneByOne) {
  start([](char) {});
  // Where that did not get a processor for long, the standby has taken over: of some tries one is quiet.
  size_t fewest = kThreads;
  for (int i = 0; i < 20 && fewest > 1; ++i) fewest = std::min(fewest, request_in_turn(100));
  EXPECT_EQ(fewest, 1u);
}

// Also when it is the one that others wait for: what it waits for may be theirs to do.
TEST_F(DeviceQueue, ARequestThatWaitsHoldsUpNoOther) {
  std::atomic<bool> go_on{false};
  start([&](char kind) {
    while (kind == 'w' && !go_on) std::this_thread::sleep_for(milliseconds(1));
  });
  for (int round = 0; round < 20; ++round) {
    request_in_turn(300);
    const uint64_t before = served_;
    go_on = false;
    for (int i = 0; i < kThreads - 1; ++i) request('w');
    request('a');
    await_served(before + 1);
    go_on = true;
    await_served(before + kThreads);
  }
}

TEST_F(DeviceQueue, WhoHandsOverIsServedBesideByOneOther) {
  std::atomic<bool> go_on{false};
  std::atomic<bool> under_way{false};
  start([&](char kind) {
    under_way = kind == 'l';
    while (kind == 'l' && !go_on) std::this_thread::sleep_for(std::chrono::microseconds(100));
  });
  size_t fewest = kThreads;
  for (int i = 0; i < 20 && fewest > 1; ++i) {
    request_in_turn(300);
    go_on = false;
    under_way = false;
    request('l');
    while (!under_way) std::this_thread::yield();
    fewest = std::min(fewest, request_in_turn(100));
    const uint64_t before = served_;
    go_on = true;
    await_served(before + 1);
  }
  EXPECT_EQ(fewest, 1u);
}

TEST_F(DeviceQueue, MoreThatTakeLongThanThreads) {
  std::atomic<bool> go_on{false};
  std::atomic<int> under_way{0};
  start([&](char kind) {
    if (kind != 'l') return;
    ++under_way;
    while (!go_on) std::this_thread::sleep_for(std::chrono::microseconds(100));
  });
  for (int round = 0; round < 20; ++round) {
    request_in_turn(200);
    const uint64_t before = served_;
    go_on = false;
    under_way = 0;
    for (int i = 0; i < kThreads + 2; ++i) request('l');
    const auto latest = steady_clock::now() + std::chrono::seconds(30);
    while (under_way < kThreads && steady_clock::now() < latest) std::this_thread::yield();
    EXPECT_EQ(under_way, kThreads);
    go_on = true;
    await_served(before + kThreads + 2);
  }
}

// Who is woken to stand by may be given something to do before he could, and others sleep.
TEST_F(DeviceQueue, SomebodyStandsByWhateverTheOthersAreGiven) {
  std::atomic<bool> go_on{false};
  start([&](char kind) {
    while (kind != 'a' && !go_on) std::this_thread::sleep_for(milliseconds(1));
  });
  for (unsigned round = 0; round < 60; ++round) {
    const uint64_t before = served_;
    go_on = false;
    for (int i = 0; i < kThreads - 1; ++i) {
      request((round >> i) % 2 == 0 ? 'w' : 'l');
      std::this_thread::sleep_for(std::chrono::microseconds(1'000 * (round % 7)));
    }
    request('a');
    await_served(before + 1);
    go_on = true;
    await_served(before + kThreads);
  }
}

// After a pause in which all sleep, too.
TEST_F(DeviceQueue, GoesOnAfterAPause) {
  std::atomic<bool> go_on{false};
  start([&](char kind) {
    while (kind == 'w' && !go_on) std::this_thread::sleep_for(milliseconds(1));
  });
  for (int round = 0; round < 3; ++round) {
    request_in_turn(200);
    std::this_thread::sleep_for(milliseconds(120));
    const uint64_t before = served_;
    go_on = false;
    request('w');
    request('a');
    await_served(before + 1);
    go_on = true;
    await_served(before + 2);
  }
}

TEST_F(DeviceQueue, SleepsWhileNothingComes) {
  start([](char) {});
  request_in_turn(300);
  std::this_thread::sleep_for(milliseconds(200));
  timespec begin{};
  timespec end{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &begin);
  std::this_thread::sleep_for(milliseconds(500));
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &end);
  const auto used =
      std::chrono::seconds(end.tv_sec - begin.tv_sec) + std::chrono::nanoseconds(end.tv_nsec - begin.tv_nsec);
  EXPECT_LT(used, milliseconds(250));  // who polls takes all of it
}

TEST_F(DeviceQueue, TheEndOfTheConnectionReachesAll) {
  start([](char) {});
  request_in_turn(300);
  kernel_ = UniqueFd();
  const auto latest = steady_clock::now() + std::chrono::seconds(30);
  while (ended_ < kThreads && steady_clock::now() < latest) std::this_thread::yield();
  EXPECT_EQ(ended_, kThreads);
}

TEST_F(DeviceQueue, StopWakesAll) {
  start([](char) {});
  request_in_turn(10);
  queue_->stop();
  const auto latest = steady_clock::now() + std::chrono::seconds(30);
  while (ended_ < kThreads && steady_clock::now() < latest) std::this_thread::yield();
  EXPECT_EQ(ended_, kThreads);
}

}  // namespace
}  // namespace brickfs
