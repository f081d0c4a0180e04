// SPDX-License-Identifier: Apache-2.0
// Requests are datagrams of one byte here; as from /dev/fuse, a read() takes one.
#include "fs/fuse/device_queue.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "transport/base/unique_fd.h"

namespace brickfs {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

class DeviceQueue : public ::testing::Test {
 protected:
  static constexpr int kThreads = 6;
  static constexpr size_t kMostTogether = 16;
  using Serve = std::function<void(char request)>;

  DeviceQueue() {
    struct sigaction action {};
    action.sa_handler = [](int) {};
    ::sigaction(FuseDeviceQueue::kWakeSignal, &action, nullptr);
    int ends[2] = {-1, -1};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
    kernel_ = UniqueFd(ends[0]);
    device_ = UniqueFd(ends[1]);
  }
  ~DeviceQueue() override { stop(); }

  void start(bool looks, Serve serve) {
    queue_ = std::make_unique<FuseDeviceQueue>(device_.get(), looks);
    serve_ = std::move(serve);
    running_ = kThreads;
    for (int i = 0; i < kThreads; ++i) threads_.emplace_back([this] { run(); });
  }
  void stop() {
    if (!queue_) return;
    stopping_ = true;
    queue_->stop();
    while (running_ > 0) {
      for (auto& thread : threads_) ::pthread_kill(thread.native_handle(), FuseDeviceQueue::kWakeSignal);
      std::this_thread::sleep_for(milliseconds(2));
    }
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
  std::atomic<int> running_{0};
  std::atomic<int> ended_{0};
  std::atomic<size_t> most_together_{0};
  UniqueFd kernel_;
  std::vector<std::thread> threads_;

 private:
  void run() {
    {
      FuseDeviceQueue::Seat seat(*queue_);
      char request = 0;
      while (!stopping_) {
        const ssize_t got = queue_->receive(seat, std::as_writable_bytes(std::span(&request, 1)));
        if (got == 0) break;  // the far end is closed
        if (got < 0) continue;
        {
          MutexLock lock(mutex_);
          servers_.insert(std::this_thread::get_id());
        }
        if (request == 'l') queue_->pass_on(seat);
        queue_->note(seat, request == 'j');
        if (request == 'j' && queue_->serves_together(seat)) {
          serve_together(seat);
        } else {
          serve_(request);
          ++served_;
        }
      }
    }
    ++ended_;
    while (!stopping_) std::this_thread::sleep_for(milliseconds(1));
    --running_;
  }

  // The one at hand, and others of its kind that wait.
  void serve_together(const FuseDeviceQueue::Seat& seat) {
    size_t joined = 1;
    char next = 0;
    while (joined < kMostTogether && ::recv(device_.get(), &next, 1, MSG_DONTWAIT) == 1) {
      ++joined;
      if (next != 'j') break;
    }
    if (joined == kMostTogether) queue_->pass_on_what_waits(seat);
    serve_(joined == kMostTogether ? 'f' : 'j');
    if (joined > 1 && next != 'j') serve_(next);
    queue_->served_together(joined);
    served_ += joined;
    size_t most = most_together_;
    while (joined > most && !most_together_.compare_exchange_weak(most, joined)) {
    }
  }

  UniqueFd device_;
  std::unique_ptr<FuseDeviceQueue> queue_;
  Serve serve_;
  std::atomic<bool> stopping_{false};
  Mutex mutex_;
  std::set<std::thread::id> servers_ ABSL_GUARDED_BY(mutex_);
};

TEST_F(DeviceQueue, OneThreadServesWhatComesOneByOne) {
  start(true, [](char) {});
  request_in_turn(2000);
  // A deputy that did not get a processor for long may call the others: of some tries one is quiet.
  size_t fewest = kThreads;
  for (int i = 0; i < 20 && fewest > 1; ++i) fewest = std::min(fewest, request_in_turn(100));
  EXPECT_EQ(fewest, 1u);
}

TEST_F(DeviceQueue, AllServeWhereNobodyLooks) {
  start(false, [](char) {});
  EXPECT_GT(request_in_turn(500), 1u);
}

// Also when it is the one that others wait for: what it waits for may be theirs to do.
TEST_F(DeviceQueue, ARequestThatWaitsHoldsUpNoOther) {
  std::atomic<bool> go_on{false};
  start(true, [&](char kind) {
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

TEST_F(DeviceQueue, ManyAtOnceAreSharedOut) {
  std::atomic<int> at_once{0};
  std::atomic<int> most{0};
  start(true, [&](char kind) {
    if (kind != 's') return;
    const int now = ++at_once;
    for (int seen = most; now > seen && !most.compare_exchange_weak(seen, now);) {
    }
    std::this_thread::sleep_for(std::chrono::microseconds(200));
    --at_once;
  });
  request_in_turn(300);
  const uint64_t before = served_;
  for (int i = 0; i < 1000; ++i) request('s');
  await_served(before + 1000);
  EXPECT_GT(most, 1);
}

TEST_F(DeviceQueue, ManyThatJoinAreServedTogether) {
  start(true, [](char) { std::this_thread::sleep_for(std::chrono::microseconds(200)); });
  for (int round = 0; round < 50 && most_together_ < 8; ++round) {
    const uint64_t before = served_;
    for (int i = 0; i < 200; ++i) request('j');
    await_served(before + 200);
  }
  EXPECT_GE(most_together_, 8u);
  most_together_ = 0;
  request_in_turn(200);
  EXPECT_EQ(most_together_, 0u) << "what does not join is served by itself";
}

TEST_F(DeviceQueue, MoreThanGoTogetherAreSharedOut) {
  std::atomic<int> at_once{0};
  std::atomic<int> most{0};
  start(true, [&](char kind) {
    const int now = kind == 'f' ? ++at_once : 0;
    for (int seen = most; now > seen && !most.compare_exchange_weak(seen, now);) {
    }
    std::this_thread::sleep_for(std::chrono::microseconds(200));
    if (kind == 'f') --at_once;
  });
  for (int round = 0; round < 50 && most < 2; ++round) {
    const uint64_t before = served_;
    for (int i = 0; i < 400; ++i) request('j');
    await_served(before + 400);
  }
  EXPECT_GE(most, 2) << "at a time, of as many as go together";
}

TEST_F(DeviceQueue, WhatIsServedTogetherHoldsUpNoOther) {
  std::atomic<bool> stuck{false};
  std::atomic<bool> under_way{false};
  start(true, [&](char kind) {
    std::this_thread::sleep_for(std::chrono::microseconds(200));
    under_way = under_way || (kind == 'j' && stuck);
    while (kind == 'j' && stuck) std::this_thread::sleep_for(milliseconds(1));
  });
  for (int round = 0; round < 10; ++round) {
    uint64_t before = served_;
    for (int i = 0; i < 400; ++i) request('j');
    await_served(before + 400);
    stuck = true;
    before = served_;
    under_way = false;
    for (int i = 0; i < 3; ++i) request('j');
    while (!under_way) std::this_thread::yield();
    request('a');
    await_served(before + 1);
    stuck = false;
    await_served(before + 4);
  }
}

// Then one other thread serves what comes beside it; without that the deputy would have had to call all.
TEST_F(DeviceQueue, WhatTakesLongIsPassedOn) {
  std::atomic<bool> go_on{false};
  std::atomic<bool> under_way{false};
  start(true, [&](char kind) {
    under_way = kind == 'l';
    while (kind == 'l' && !go_on) std::this_thread::sleep_for(std::chrono::microseconds(100));
  });
  size_t fewest = kThreads;
  for (int i = 0; i < 20 && fewest > 1; ++i) {
    request_in_turn(300);
    go_on = false;
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
  start(true, [&](char kind) {
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

// After a pause in which all sleep, too.
TEST_F(DeviceQueue, GoesOnAfterAPause) {
  start(true, [](char) {});
  for (int round = 0; round < 3; ++round) {
    request_in_turn(200);
    std::this_thread::sleep_for(milliseconds(60));
  }
}

TEST_F(DeviceQueue, SleepsWhileNothingComes) {
  start(true, [](char) {});
  request_in_turn(300);
  std::this_thread::sleep_for(milliseconds(200));
  timespec begin{};
  timespec end{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &begin);
  std::this_thread::sleep_for(milliseconds(500));
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &end);
  const auto used =
      std::chrono::seconds(end.tv_sec - begin.tv_sec) + std::chrono::nanoseconds(end.tv_nsec - begin.tv_nsec);
  EXPECT_LT(used, milliseconds(20));
}

TEST_F(DeviceQueue, TheEndOfTheConnectionReachesAll) {
  start(true, [](char) {});
  request_in_turn(300);
  kernel_ = UniqueFd();
  const auto latest = steady_clock::now() + std::chrono::seconds(30);
  while (ended_ < kThreads && steady_clock::now() < latest) std::this_thread::yield();
  EXPECT_EQ(ended_, kThreads);
}

}  // namespace
}  // namespace brickfs
