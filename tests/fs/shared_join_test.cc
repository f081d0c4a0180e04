// SPDX-License-Identifier: Apache-2.0
// Who joins whom: a member knows from the bricks who coordinates, and at his address another one may listen meanwhile.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "fs/shared/coordinator.h"
#include "fs/shared/coordinator_link.h"
#include "fs/shared/leased_files.h"
#include "tests/support/eventually.h"
#include "tests/support/mounted_volume.h"
#include "tests/support/sharing_bed.h"
#include "transport/accept/tcp_acceptor.h"
#include "transport/tcp/tcp_channel.h"

namespace brickfs::shared {
namespace {

class SharedJoin : public ::testing::Test {
 protected:
  SharedJoin() { coordinator_->serve({own_, &*volume_, ClientId{7}, nullptr}); }
  ~SharedJoin() override { coordinator_->stop(); }  // before what it serves goes

  int join(const std::function<void(JoinRequest&)>& edit) {
    CoordinatorLink::Config config = member_config(coordinator_->port(), ClientId{100});
    config.request.coordinator = ClientId{7};
    edit(config.request);
    const auto joined = CoordinatorLink::join(std::move(config), &why_);
    if (joined.ok()) (*joined)->leave();
    return joined.code();
  }

  const ClientSecret kSecret{secret_of(kTestSecret)};
  MountedVolume volume_{MountedVolume::Options{.mount = {.shared = true}}};
  std::unique_ptr<Coordinator> coordinator_ = *Coordinator::listen("127.0.0.1", 0, "home", kSecret);
  LeasedFiles own_{*volume_, coordinator_->leases()};
  std::string why_;
};

TEST_F(SharedJoin, TheOneThatTheBricksTellOf) {
  EXPECT_EQ(join([](JoinRequest&) {}), 0) << why_;
}

// Its volume may have the same name and secret, on other bricks: that this one's files are shown must not be.
TEST_F(SharedJoin, AnotherOneThatListensThereIsNotJoined) {
  EXPECT_EQ(join([](JoinRequest& asked) { asked.coordinator = ClientId{8}; }), ECONNREFUSED)
      << "as if nobody listened there";
  EXPECT_EQ(join([](JoinRequest& asked) { asked.coordinator = ClientId{8}, asked.volume = "other"; }), ECONNREFUSED)
      << "nor is it the end of the member";
}

TEST_F(SharedJoin, AnotherVersionOfTheCallsIsRefusedWithItsReason) {
  EXPECT_EQ(join([](JoinRequest& asked) { ++asked.version; }), EPROTONOSUPPORT);
  EXPECT_NE(why_.find("another version of brickfs"), why_.npos) << why_;
}

// The bricks go on telling of one that has died behind the first: without that a member would be sent to it for ever.
TEST_F(SharedJoin, OneThatIsGoneWhenTheMemberComesToItIsToldOf) {
  constexpr ClientId kNext{9};
  std::atomic<int> sought{0};
  std::atomic<bool> was_told{false};
  CoordinatorLink::Config config = member_config(coordinator_->port(), ClientId{100});
  const uint16_t nobodys_port = [] { return (*TcpAcceptor::open("127.0.0.1", 0))->port(); }();
  config.seek = [&](const CoordinatorLink::Lost& lost) -> Result<CoordinatorLink::Sought> {
    if (lost.missed == kNext && lost.is_dead) was_told = true;
    if (was_told) return CoordinatorLink::Sought{};
    ++sought;
    return CoordinatorLink::Sought{CoordinatorLink::Sought::Kind::kMoved, {"127.0.0.1", nobodys_port}, "", kNext};
  };
  const auto joined = CoordinatorLink::join(std::move(config), &why_);
  ASSERT_TRUE(joined.ok()) << why_;
  coordinator_->stop();
  EXPECT_TRUE(testing::eventually([&] { return was_told.load(); }));
  EXPECT_EQ(sought, 1);
  (*joined)->interrupt();
}

// Its process may go on for a while: to write what it has, say.
TEST_F(SharedJoin, WhoComesBehindItsEndIsRefusedAtOnce) {
  coordinator_->stop();
  EXPECT_EQ(join([](JoinRequest&) {}), ECONNREFUSED) << why_;
}

// Answers one that joins, and no call of it; whoever comes behind that is told that it ends.
class Leaving {
 public:
  Leaving() {
    TcpAcceptor::Hooks hooks;
    hooks.judge = [this](const PeerAddress&, const Nonces& nonces, const Message& call) {
      const auto checked = check_join(secret_, nonces, call);
      FirstCallVerdict verdict{Error(EACCES), {}};
      if (checked.ok()) verdict.proof = Credential{.secret = *checked, .key = {}, .rights = KeyRights::kReadWrite};
      return std::optional(std::move(verdict));
    };
    hooks.introduced = [this](const TcpUnauthenticatedPeers::Introduced& peer) {
      tcp::TcpChannel channel(UniqueFd(::dup(peer.stream.fd())));
      const auto answer = ++joined_ == 1
                              ? Result<Joined>(Joined{1, {}, ClientId{7}, Durability::kVolatile, kMemberLease})
                              : Result<Joined>(Error(EAGAIN, "it ends"));
      (void)answer_join(channel, peer.nonces, secret_, peer.call, answer);
      channel.shut_down();
    };
    hooks.tick = hooks.displaced = hooks.out_of_descriptors = [] {};
    acceptor_->start(std::move(hooks));
  }
  uint16_t port() const { return acceptor_->port(); }

 private:
  const Secret secret_ = secret_of(kTestSecret);
  int joined_ = 0;
  const std::unique_ptr<TcpAcceptor> acceptor_ = *TcpAcceptor::open("127.0.0.1", 0);
};

// It may be the coordinator's own process that joins: which is not to look for another, nor to give up its volume.
TEST(LeavingCoordinator, IsNotJoinedAndTheNextIsNotSought) {
  const Leaving leaving;
  std::atomic<int> sought{0};
  std::atomic<int> interrupted{0};
  CoordinatorLink::Config config = member_config(leaving.port(), ClientId{100});
  config.seek = [&](const CoordinatorLink::Lost&) -> Result<CoordinatorLink::Sought> {
    ++sought;
    return CoordinatorLink::Sought{CoordinatorLink::Sought::Kind::kEnded, {}, "nobody has it"};
  };
  config.interrupted = [&] { ++interrupted; };
  std::string why;
  EXPECT_EQ(CoordinatorLink::join(std::move(config), &why).code(), ENOTCONN) << why;
  EXPECT_EQ(sought, 0);
  EXPECT_EQ(interrupted, 0);
}

}  // namespace
}  // namespace brickfs::shared
