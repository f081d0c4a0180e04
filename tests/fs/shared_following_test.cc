// SPDX-License-Identifier: Apache-2.0
// A member on its way from one coordinator to the next, where something is slow: itself, or they.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/eventually.h"
#include "tests/support/reserved_port.h"
#include "tests/support/shared_volume.h"
#include "tests/support/stopped_process.h"
#include "transport/base/unique_fd.h"

namespace brickfs::shared {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::eventually;
using testing::stop_for;
using Sought = CoordinatorLink::Sought;

// A port of this host where connections are made, and nothing is ever said.
class SilentPort {
 public:
  explicit SilentPort(uint16_t port) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const int on = 1;
    EXPECT_EQ(::setsockopt(fd_.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)), 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(port);
    EXPECT_EQ(::bind(fd_.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    EXPECT_EQ(::listen(fd_.get(), 100), 0);
  }

 private:
  UniqueFd fd_;
};

class Following : public SharedVolume {
 protected:
  ~Following() override {
    member_.reset();
    if (coordinator_) coordinator_->stop();
  }
  // The coordinator is gone, and who has the volume `seek` says.
  std::unique_ptr<MemberFiles> join_with(std::function<Sought(const CoordinatorLink::Lost& lost)> seek,
                                         CoordinatorLink** link = nullptr) {
    CoordinatorLink::Config config = this->config();
    config.seek = [seek = std::move(seek)](const CoordinatorLink::Lost& lost) -> Result<Sought> { return seek(lost); };
    std::string why;
    auto joined = CoordinatorLink::join(std::move(config), &why);
    EXPECT_TRUE(joined.ok()) << why;
    if (link != nullptr) *link = joined->get();
    return std::make_unique<MemberFiles>(std::move(*joined), nullptr, false, false);
  }
  void begin_next() {
    volume_.crash_and_mount();
    client_ = ClientId{raw_of(client_) + 1};
    share();
  }

  std::unique_ptr<MemberFiles> member_;
};

// It does not go back to the former one, which is silent.
TEST_F(Following, PastANextCoordinatorThatDoesNotAnswer) {
  share();
  const uint16_t former = coordinator_->port();
  testing::ReservedPort nobody;
  std::unique_ptr<SilentPort> silent;
  grace_ = milliseconds(2'500);
  std::atomic<int> asked{0};
  std::atomic<bool> is_gone{false};
  member_ = join_with([&](const CoordinatorLink::Lost& lost) -> Sought {
    if (asked++ == 0) {
      while (!is_gone) std::this_thread::sleep_for(milliseconds(1));
      begin_next();
      silent = std::make_unique<SilentPort>(former);
      return {Sought::Kind::kMoved, {"127.0.0.1", nobody.number()}, "", ClientId{99}};
    }
    EXPECT_EQ(lost.missed, ClientId{99});
    return {Sought::Kind::kMoved, {"127.0.0.1", coordinator_->port()}, "", client_};
  });
  ASSERT_TRUE(member_);
  coordinator_->stop();
  is_gone = true;
  EXPECT_TRUE(member_->get_attributes(kRootIno, {}).ok()) << "it is expelled";
  EXPECT_EQ(coordinator_->members().size(), 1u);
  member_.reset();
}

// The next one begins yet, and the bricks are away for a moment: the former one is as silent as before.
TEST_F(Following, ToTheNextCoordinatorThoughItCannotBeSoughtForAMoment) {
  share();
  const uint16_t former = coordinator_->port();
  std::unique_ptr<SilentPort> silent;
  std::unique_ptr<Coordinator> begins;
  grace_ = milliseconds(2'500);
  std::atomic<int> asked{0};
  std::atomic<bool> is_gone{false};
  CoordinatorLink::Config config = this->config();
  config.seek = [&](const CoordinatorLink::Lost&) -> Result<Sought> {
    const int count = ++asked;
    if (count == 1) {
      while (!is_gone) std::this_thread::sleep_for(milliseconds(1));
      own_.reset();
      coordinator_.reset();
      silent = std::make_unique<SilentPort>(former);
      begins = std::move(*Coordinator::listen("127.0.0.1", 0, "home", secret_of(kTestSecret)));
      return Sought{Sought::Kind::kMoved, {"127.0.0.1", begins->port()}, "", ClientId{99}};
    }
    if (count == 2) {
      begin_next();
      return Error(ETIMEDOUT, "no brick there");
    }
    return Sought{Sought::Kind::kMoved, {"127.0.0.1", coordinator_->port()}, "", client_};
  };
  std::string why;
  auto joined = CoordinatorLink::join(std::move(config), &why);
  ASSERT_TRUE(joined.ok()) << why;
  member_ = std::make_unique<MemberFiles>(std::move(*joined), nullptr, false, false);
  coordinator_->stop();
  is_gone = true;
  EXPECT_TRUE(member_->get_attributes(kRootIno, {}).ok()) << "it is expelled";
  member_.reset();
}

// Nobody could come to it meanwhile.
TEST_F(Following, ToACoordinatorThatWasStoppedWhileItWaitedForMembers) {
  share();
  std::atomic<bool> goes{false};
  std::atomic<uint16_t> next{0};
  member_ = join_with([&](const CoordinatorLink::Lost&) -> Sought {
    if (!goes) return {};
    return {Sought::Kind::kMoved, {"127.0.0.1", next}, "", client_};
  });
  ASSERT_TRUE(member_);
  coordinator_->stop();
  grace_ = seconds(6);
  begin_next();
  next = coordinator_->port();
  stop_for(seconds(7));
  goes = true;
  EXPECT_TRUE(member_->get_attributes(kRootIno, {}).ok()) << "it is expelled";
  EXPECT_EQ(coordinator_->members().size(), 1u);
  member_.reset();
}

TEST_F(Following, IsOverBeforeWhatALinkAsksGoes) {
  share();
  std::atomic<bool> is_sought{false};
  std::atomic<bool> may_find{false};
  std::atomic<uint16_t> next{0};
  CoordinatorLink::Config config = this->config();
  config.seek = [&](const CoordinatorLink::Lost&) -> Result<Sought> {
    for (is_sought = true; !may_find;) std::this_thread::sleep_for(milliseconds(1));
    return Sought{Sought::Kind::kMoved, {"127.0.0.1", next}, "", client_};
  };
  std::string why;
  auto link = CoordinatorLink::join(std::move(config), &why);
  ASSERT_TRUE(link.ok()) << why;
  std::atomic<bool> has_stopped{false};
  (*link)->set_claims([&] {
    EXPECT_FALSE(has_stopped) << "of who is gone";
    return std::vector<Claim>();
  });
  coordinator_->stop();
  EXPECT_TRUE(eventually([&] { return is_sought.load(); }));
  begin_next();
  next = coordinator_->port();
  std::thread stops([&] {
    (*link)->stop();
    has_stopped = true;
  });
  std::this_thread::sleep_for(milliseconds(100));
  EXPECT_FALSE(has_stopped) << "its thread looks for the next one yet";
  may_find = true;
  stops.join();
  std::this_thread::sleep_for(milliseconds(100));
}

}  // namespace
}  // namespace brickfs::shared
