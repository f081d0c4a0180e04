// SPDX-License-Identifier: Apache-2.0
// Members' calls as they travel: who may make them, what comes again, what is given up, and what no member sends.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <chrono>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/eventually.h"
#include "tests/support/shared_volume.h"
#include "transport/tcp/greet.h"

namespace brickfs::shared {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;
using testing::eventually;

TEST_F(SharedVolume, ACallThatWasGivenUpBeforeItCameIsNotDone) {
  share();
  JoinRequest request = config().request;
  const auto connect = [&](uint32_t slot) {
    auto greeted = *tcp::greet(config().address, steady_clock::now() + seconds(10));
    request.slot = slot;
    const auto joined =
        shared::join(*greeted.channel, greeted.nonces, secret_of(kTestSecret), request, greeted.deadline);
    EXPECT_TRUE(joined.ok());
    request.session = joined->session;
    request.token = joined->token;
    return std::move(greeted.channel);
  };
  const auto ask = [&](Channel& channel, uint64_t number, const auto& asked) {
    wire::CallHeader header;
    header.kind = kind_of<std::decay_t<decltype(asked)>>();
    header.id = number;
    EXPECT_TRUE(channel.send(header, encode(asked)).ok());
    return channel.receive(steady_clock::now() + seconds(10));
  };
  const auto keeper = connect(0);
  const auto other = connect(3);
  const auto cancelled = ask(*keeper, 1, Cancel{3, 1, true});
  ASSERT_TRUE(cancelled.ok());
  EXPECT_TRUE(decode<Cancelled>(cancelled->body)->is_over) << "it will never be done";
  const Make make{Make::How::kFile, kRootIno, "file", S_IFREG | 0644, 0, "", to_who(root_caller())};
  EXPECT_NE(ask(*other, 1, make)->header.status, 0);
  EXPECT_EQ(own_->lookup(kRootIno, "file", {}).code(), ENOENT);
  EXPECT_EQ(ask(*other, 2, make)->header.status, 0);
}

TEST_F(SharedVolume, ACallThatComesAgainIsNotDoneTwice) {
  share();
  const auto greet = [&] { return *tcp::greet(config().address, steady_clock::now() + seconds(10)); };
  auto first = greet();
  JoinRequest request = config().request;
  const auto joined = shared::join(*first.channel, first.nonces, secret_of(kTestSecret), request, first.deadline);
  ASSERT_TRUE(joined.ok());
  const Make make{Make::How::kFile, kRootIno, "file", S_IFREG | 0644, 0, "", to_who(root_caller())};
  const auto ask = [&](Channel& channel, uint64_t number) {
    wire::CallHeader header;
    header.kind = kind_of<Make>();
    header.id = number;
    EXPECT_TRUE(channel.send(header, encode(make)).ok());
    return channel.receive(steady_clock::now() + seconds(10));
  };
  const auto made = ask(*first.channel, 1);
  ASSERT_TRUE(made.ok());
  EXPECT_EQ(made->header.status, 0);
  first.channel->shut_down();
  auto second = greet();
  request.session = joined->session;
  request.token = joined->token;
  ASSERT_TRUE(shared::join(*second.channel, second.nonces, secret_of(kTestSecret), request, second.deadline).ok());
  const auto again = ask(*second.channel, 1);
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->header.status, 0) << "the same answer, and not EEXIST";
  EXPECT_EQ(again->body, made->body);
  EXPECT_EQ(ask(*second.channel, 2)->header.status, EEXIST);
  EXPECT_FALSE(ask(*second.channel, 1).ok()) << "out of turn";
}

TEST_F(SharedVolume, LostConnectionsComeAgain) {
  share();
  CoordinatorLink* link = nullptr;
  const auto member = join(&link);
  ASSERT_TRUE(member);
  std::atomic<bool> stop{false};
  std::thread cutter([&] {
    while (!stop) {
      link->give_up_silent();
      std::this_thread::sleep_for(milliseconds(3));
    }
  });
  const Ino log = make_file(*member, "log");
  for (int i = 0; i < 300; ++i) {
    const std::string name = "file" + std::to_string(i);
    EXPECT_TRUE(member->create(kRootIno, name, S_IFREG | 0644, root_caller(), {}).ok()) << name;
    EXPECT_TRUE(write_text(*member, log, 0, "0123456789", true).ok());
  }
  stop = true;
  cutter.join();
  EXPECT_EQ(member->get_attributes(log, {})->size_bytes, 3000u);
}

TEST_F(SharedVolume, WhoIsNotHeardOfIsExpelled) {
  share(milliseconds(300));
  CoordinatorLink::Config silent = config();
  const auto b = join();
  {
    std::string why;
    auto greeted = tcp::greet(silent.address, steady_clock::now() + seconds(10));
    ASSERT_TRUE(greeted.ok());
    ASSERT_TRUE(
        shared::join(*greeted->channel, greeted->nonces, silent.secret.get(), silent.request, greeted->deadline).ok());
  }
  EXPECT_TRUE(eventually([&] { return coordinator_->members().size() <= 1; }));
}

TEST_F(SharedVolume, WhoDoesNotKnowTheSecretIsRefused) {
  share();
  std::string why;
  EXPECT_EQ(CoordinatorLink::join(config("another"), &why).code(), EACCES);
  EXPECT_NE(why.find("secret"), std::string::npos) << why;
  CoordinatorLink::Config other = config();
  other.request.volume = "another";
  EXPECT_EQ(CoordinatorLink::join(std::move(other), &why).code(), ENOENT);
}

TEST_F(SharedVolume, BytesThatNoMemberSendsEndTheConnectionAlone) {
  share();
  const auto member = join();
  ASSERT_TRUE(member);
  std::mt19937_64 random(1);
  for (int round = 0; round < 300; ++round) {
    std::vector<std::byte> body(random() % 300);
    for (std::byte& byte : body) byte = static_cast<std::byte>(random() % 4 == 0 ? random() : 0);
    const auto decoded = decode_request(static_cast<uint16_t>(random() % (kKinds + 2)), body);
    EXPECT_TRUE(decoded.ok() || decoded.code() == EPROTO);
  }
  for (int round = 0; round < 50; ++round) {
    auto greeted = tcp::greet(config().address, steady_clock::now() + seconds(10));
    ASSERT_TRUE(greeted.ok());
    ASSERT_TRUE(
        shared::join(*greeted->channel, greeted->nonces, secret_of(kTestSecret), config().request, greeted->deadline)
            .ok());
    wire::CallHeader header;
    header.kind = static_cast<uint16_t>(random() % (kKinds + 2));
    header.id = random() % 3;
    std::vector<std::byte> body(random() % 200);
    for (std::byte& byte : body) byte = static_cast<std::byte>(random());
    (void)greeted->channel->send(header, body);
    (void)greeted->channel->receive(steady_clock::now() + milliseconds(50));
  }
  EXPECT_TRUE(member->get_attributes(kRootIno, {}).ok());
}

}  // namespace
}  // namespace brickfs::shared
