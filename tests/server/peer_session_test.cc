// SPDX-License-Identifier: Apache-2.0
// A call that runs once, whoever asks for it again and whenever.
#include "server/peers/peer_session.h"

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/brick_contract.h"
#include "tests/support/tcp_test_brick.h"

namespace brickfs {
namespace {

using namespace std::chrono_literals;
using testing::memory_config;
using testing::request_for;

constexpr BlockRange kOne{BlockAddress{0}, 1};

class PeerCalls : public ::testing::Test {
 protected:
  PeerCalls() {
    std::string why;
    auto service = BrickService::open(memory_config(2), &why);
    EXPECT_TRUE(service.ok()) << why;
    service_ = *std::move(service);
    peer_ = std::make_shared<PeerSession>(nullptr);
    auto session = service_->open_session(request_for(1), PeerSession::end_of(peer_), nullptr);
    EXPECT_TRUE(session.ok());
    peer_->set_server_session(*std::move(session), "default");
  }
  int call(uint64_t id, const calls::Request& request) { return peer_->call(id, request, nullptr).code(); }

  std::unique_ptr<BrickService> service_;
  std::shared_ptr<PeerSession> peer_;
};

// A FREE waits for a pin. Those who ask for it again wait too, and so many calls come that it is forgotten as soon as
// it is answered: done again, it would find no block.
TEST_F(PeerCalls, WhoWaitsHasTheAnswerOfACallThatIsForgotten) {
  constexpr int kRounds = 20;
  constexpr int kWaiters = 4;
  constexpr uint64_t kCalls = 32;
  ServerSession& session = peer_->server_session();
  uint64_t id = 1;
  for (int round = 0; round < kRounds; ++round, id += kCalls + 1) {
    ASSERT_TRUE(session.alloc(kOne).ok());
    const Handle handle = session.map(kOne, Access::kReadWrite)->front();
    auto pin = session.pin(handle.remote_key, handle.remote_address, 1, Access::kRead);
    ASSERT_TRUE(pin.ok());
    const auto free = [&] { return call(id, calls::Free{kOne}); };
    auto first = std::async(std::launch::async, [&] {
      const int code = free();
      EXPECT_EQ(call(id + kCalls, calls::Notify{1, 1}), 0);
      return code;
    });
    std::this_thread::sleep_for(10ms);  // until it waits
    std::vector<std::future<int>> again;
    for (int i = 0; i < kWaiters; ++i) again.push_back(std::async(std::launch::async, free));
    std::this_thread::sleep_for(10ms);
    for (uint64_t other = 1; other < kCalls; ++other) EXPECT_EQ(call(id + other, calls::Notify{1, 1}), 0);
    *pin = Pin();
    EXPECT_EQ(first.get(), 0);
    for (auto& waiter : again) EXPECT_EQ(waiter.get(), 0) << "round " << round;
  }
}

// The second one would find no handles, and be done at once.
TEST_F(PeerCalls, AnUnmapAskedForAgainWaitsForTheFirst) {
  ServerSession& session = peer_->server_session();
  ASSERT_TRUE(session.alloc(kOne).ok());
  const Handle handle = session.map(kOne, Access::kReadWrite)->front();
  auto pin = session.pin(handle.remote_key, handle.remote_address, 1, Access::kRead);
  ASSERT_TRUE(pin.ok());
  const auto unmap = [&] { return call(1, calls::Unmap{kOne}); };
  auto first = std::async(std::launch::async, unmap);
  ASSERT_TRUE(testing::eventually([&] {  // it has begun
    return !session.pin(handle.remote_key, handle.remote_address, 1, Access::kRead).ok();
  }));
  auto again = std::async(std::launch::async, unmap);
  EXPECT_EQ(again.wait_for(100ms), std::future_status::timeout);
  *pin = Pin();
  EXPECT_EQ(first.get(), 0);
  EXPECT_EQ(again.get(), 0);
}

// While the oldest call is under way nothing is forgotten. Afterwards all is that is not among the last.
TEST_F(PeerCalls, OneThatTookLongLeavesNoMoreThanOthers) {
  constexpr BlockRange kOther{BlockAddress{kBlockBytes}, 1};
  constexpr uint64_t kCalls = 32;
  ServerSession& session = peer_->server_session();
  ASSERT_TRUE(session.alloc(kOne).ok());
  const Handle handle = session.map(kOne, Access::kReadWrite)->front();
  auto pin = session.pin(handle.remote_key, handle.remote_address, 1, Access::kRead);
  ASSERT_TRUE(pin.ok());
  auto slow = std::async(std::launch::async, [&] { return call(1, calls::Free{kOne}); });
  ASSERT_TRUE(testing::eventually([&] {  // it has begun
    return !session.pin(handle.remote_key, handle.remote_address, 1, Access::kRead).ok();
  }));
  EXPECT_EQ(call(2, calls::Alloc{kOther}), 0);
  uint64_t id = 3;
  for (uint64_t i = 0; i < 2 * kCalls; ++i) EXPECT_EQ(call(id++, calls::Notify{1, 1}), 0);
  EXPECT_EQ(call(2, calls::Alloc{kOther}), 0) << "the answer that it had";
  *pin = Pin();
  EXPECT_EQ(slow.get(), 0);
  EXPECT_EQ(call(id, calls::Notify{1, 1}), 0);
  EXPECT_EQ(call(2, calls::Alloc{kOther}), EEXIST) << "forgotten, so it ran again";
}

}  // namespace
}  // namespace brickfs
