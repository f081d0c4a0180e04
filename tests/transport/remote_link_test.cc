// SPDX-License-Identifier: Apache-2.0
// The keeper of a link, whatever it is connected by.
#include "transport/remote/remote_link.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <future>

namespace brickfs {
namespace {

using namespace std::chrono_literals;

// A link without connections that is lost as the last act of its first watch.
class LostLink final : public RemoteLink {
 public:
  explicit LostLink(std::function<void(Error)> on_lost) : RemoteLink(Session(), std::move(on_lost)) { start_keeper(); }
  ~LostLink() override { LostLink::stop(); }
  int watches() const { return watches_.load(); }

  std::string describe() const override { return "nothing"; }
  void submit(Batch&) override {}
  void wait(const Batch&) override {}
  void stop() override {
    begin_stop();
    join_keeper();
  }

 private:
  Result<Reply> carry(const calls::Request&, std::chrono::milliseconds) override { return Error(ENOTCONN, "none"); }
  std::shared_ptr<CallChannel> calls() const override { return nullptr; }
  Result<std::unique_ptr<Channel>> attach_calls(Deadline) override { return Error(ENOTCONN, "none"); }
  void cut() override {}
  void watch(Deadline) override {
    if (watches_.fetch_add(1) == 0) lose(Error(ENOTCONN, "lost"));
  }
  void renew() override {}

  std::atomic<int> watches_{0};
};

// What was under way ends in a watch that has begun after the loss.
TEST(RemoteLink, WatchesOnceMoreWhenItIsLost) {
  std::promise<void> lost;
  LostLink link([&](Error) { lost.set_value(); });
  ASSERT_EQ(lost.get_future().wait_for(10s), std::future_status::ready);
  EXPECT_EQ(link.watches(), 2);
}

}  // namespace
}  // namespace brickfs
