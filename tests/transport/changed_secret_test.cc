// SPDX-License-Identifier: Apache-2.0
// A brick's secret changes while a client is mounted: he is told why he does not get in, and gets in again when he may.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "server/service/brick_service.h"
#include "server/tcp/listener.h"
#include "tests/support/brick_contract.h"
#include "tests/support/tcp_test_brick.h"
#include "transport/tcp/tcp_brick.h"
#include "transport/volume/volume_client.h"

namespace brickfs {
namespace {

using testing::eventually;

class ChangedSecret : public ::testing::Test {
 protected:
  ChangedSecret() {
    service_ = *BrickService::open(testing::memory_config(4), nullptr);
    listen(Secret{"first"});
  }
  void listen(const Secret& secret) {
    listener_.reset();
    auto opened = TcpListener::open(*service_, {SourceKind::kTcp, "127.0.0.1", port_}, secret);
    ASSERT_TRUE(opened.ok()) << opened.error().what();
    listener_ = std::move(*opened);
    port_ = listener_->port();
  }
  Result<std::unique_ptr<VolumeClient>> open(const std::string& secret) {
    VolumeOptions options;
    options.open.client = ClientId{7};
    options.open.client_name = "test";
    options.open.mode = OpenMode::kExclusive;
    Holder holder;
    return VolumeClient::open(make_tcp_brick("127.0.0.1", port_, Secret{secret}), std::move(options), &holder);
  }
  std::unique_ptr<BrickService> service_;
  std::unique_ptr<TcpListener> listener_;
  uint16_t port_ = 0;
};

TEST_F(ChangedSecret, SessionsThatAreOpenGoOnAndNewOnesNeedIt) {
  {
    const auto client = open("first");
    ASSERT_TRUE(client.ok());
    listener_->use_secret(Secret{"second"});
    EXPECT_TRUE((*client)->alloc({BlockAddress{0}, 1}).ok());
    EXPECT_TRUE((*client)->close().ok());
  }
  EXPECT_EQ(open("first").code(), EACCES);
  EXPECT_TRUE(open("second").ok());
}

TEST_F(ChangedSecret, WhoComesBackIsToldWhyAndIsLetInOnceItIsHisAgain) {
  const auto client = open("first");
  ASSERT_TRUE(client.ok());
  listen(Secret{"second"});
  EXPECT_TRUE(eventually([&] { return (*client)->link_state().text.find("secret") != std::string::npos; }))
      << (*client)->link_state().text;
  EXPECT_EQ((*client)->link_state().kind, LinkState::Kind::kWaiting);
  EXPECT_TRUE((*client)->link_state().error.is(EACCES));
  EXPECT_TRUE((*client)->final_error().ok());
  listener_->use_secret(Secret{"first"});
  EXPECT_TRUE((*client)->alloc({BlockAddress{0}, 1}).ok());
  EXPECT_EQ((*client)->link_state().kind, LinkState::Kind::kConnected);
}

}  // namespace
}  // namespace brickfs
