// SPDX-License-Identifier: Apache-2.0
// A connection on which nothing comes.
#include "server/peers/connection.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "tests/support/silent_channel.h"
#include "tests/support/tcp_test_brick.h"

namespace brickfs {
namespace {

class AnyTransport final : public PeerTransport {
 public:
  std::shared_ptr<RemoteAccess> make_access() override { return nullptr; }
  bool knows(wire::Role) const override { return true; }
  void serve_transfers(Channel&, PeerSession&) override {}
};

class SilentConnection : public ::testing::Test {
 protected:
  SilentConnection() {
    std::string why;
    auto service = BrickService::open(testing::memory_config(1), &why);
    EXPECT_TRUE(service.ok()) << why;
    service_ = *std::move(service);
    peer_ = std::make_shared<PeerSession>(nullptr);
    auto session = service_->open_session(testing::request_for(1), PeerSession::end_of(peer_), nullptr);
    EXPECT_TRUE(session.ok());
    peer_->set_server_session(*std::move(session), "default");
    sessions_.add(peer_);
  }
  // Until the connection has ended.
  void attach(wire::Role role, Channel& channel) {
    wire::AttachCall call;
    call.token = peer_->token();
    call.role = static_cast<uint32_t>(role);
    Message message;
    message.header.kind = static_cast<uint16_t>(wire::Kind::kAttach);
    message.body = wire::encode(bytes_of(call));
    Connection(channel, "test", {}, {}, {*service_, sessions_, transport_, counters_}).serve(message);
  }

  std::unique_ptr<BrickService> service_;
  PeerSessions sessions_;
  AnyTransport transport_;
  PeerCounters counters_;
  std::shared_ptr<PeerSession> peer_;
};

// Other connections show that the client is there, so this one may be silent; but its path may have died.
TEST_F(SilentConnection, OneBesideOthersEndsWhenAProbeFails) {
  testing::SilentChannel channel(3);
  attach(wire::Role::kCalls, channel);
  EXPECT_EQ(channel.sent(), 1u) << "the answer to ATTACH";
  EXPECT_EQ(channel.probes(), 3u);
}

TEST_F(SilentConnection, OneThatKeepsTheSessionEndsWithTheLease) {
  testing::SilentChannel channel;
  attach(wire::Role::kKeeper, channel);
  EXPECT_EQ(channel.sent(), 1u) << "the answer to ATTACH";
  EXPECT_EQ(channel.probes(), 0u);
}

}  // namespace
}  // namespace brickfs
