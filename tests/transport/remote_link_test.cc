// SPDX-License-Identifier: Apache-2.0
// The keeper of a link, whatever it is connected by.
#include "transport/remote/remote_link.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <atomic>
#include <future>

#include "tests/support/brick_contract.h"

namespace brickfs {
namespace {

using namespace std::chrono_literals;

// Without connections. Who derives starts the keeper, and stops before it is destroyed.
class BareLink : public RemoteLink {
 public:
  explicit BareLink(std::function<void(Error)> on_lost) : RemoteLink(Session(), std::move(on_lost)) {}
  int watches() const { return watches_.load(); }

  std::string describe() const override { return "nothing"; }
  void submit(Batch&) override {}
  void wait(const Batch&) override {}
  void stop() override {
    begin_stop();
    join_keeper();
  }

 protected:
  std::atomic<int> watches_{0};  // begun

 private:
  Result<Reply> carry(const calls::Request&, std::chrono::milliseconds) override { return Error(ENOTCONN, "none"); }
  std::shared_ptr<CallChannel> calls() const override { return nullptr; }
  Result<std::unique_ptr<Channel>> attach_calls(Deadline) override { return Error(ENOTCONN, "none"); }
  void cut() override {}
  void renew() override {}
};

// Is lost as the last act of its first watch.
class LostLink final : public BareLink {
 public:
  explicit LostLink(std::function<void(Error)> on_lost) : BareLink(std::move(on_lost)) { start_keeper(); }
  ~LostLink() override { stop(); }

 private:
  void watch(Deadline) override {
    if (watches_.fetch_add(1) == 0) lose(Error(ENOTCONN, "lost"));
  }
};

// Its flush needs the keeper, as one does under which a queue pair fails: it takes two watches more. Then the link is
// lost.
class FlushedLink final : public BareLink {
 public:
  explicit FlushedLink(std::function<void(Error)> on_lost) : BareLink(std::move(on_lost)) { start_keeper(); }
  ~FlushedLink() override { stop(); }
  bool flushed() const { return flushed_; }

 private:
  Status flush() override {
    const int before = watches_.load();
    flushed_ = testing::eventually([&] {
      wake_keeper();
      return watches_.load() >= before + 2;
    });
    lose(Error(ENOTCONN, "lost"));
    return Error(ENOTCONN, "lost");
  }
  void watch(Deadline) override {
    ++watches_;
    pollfd woken = wake_watch();
    ::poll(&woken, 1, 100);
    take_wake();
  }

  bool flushed_ = false;
};

// What was under way ends in a watch that has begun after the loss.
TEST(RemoteLink, WatchesOnceMoreWhenItIsLost) {
  std::promise<void> lost;
  LostLink link([&](Error) { lost.set_value(); });
  ASSERT_EQ(lost.get_future().wait_for(60s), std::future_status::ready);
  EXPECT_EQ(link.watches(), 2);
}

TEST(RemoteLink, TheKeeperSeesToLostConnectionsWhileTheLinkIsClosed) {
  std::atomic<int> told{0};
  FlushedLink link([&](Error) { ++told; });
  EXPECT_EQ(link.close().code(), ENOTCONN);
  EXPECT_TRUE(link.flushed());
  EXPECT_EQ(told.load(), 0) << "of the end of what is being closed";
}

}  // namespace
}  // namespace brickfs
