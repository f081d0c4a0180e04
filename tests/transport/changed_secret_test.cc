// SPDX-License-Identifier: Apache-2.0
// A brick's secret changes while a client is mounted: he is told why he does not get in, and gets in again when he may.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>

#include "server/service/brick_service.h"
#include "server/tcp/listener.h"
#include "tests/support/brick_contract.h"
#include "tests/support/brick_factory.h"
#include "tests/support/reserved_port.h"
#include "tests/support/tcp_test_brick.h"
#include "transport/brick/client_secret.h"
#include "transport/paths/connect.h"
#include "transport/tcp/tcp_brick.h"
#include "transport/volume/volume_client.h"

namespace brickfs {
namespace {

using testing::eventually;

// In the clear, and encrypted.
class ChangedSecret : public ::testing::TestWithParam<TlsMode> {
 protected:
  ChangedSecret() {
    service_ = *BrickService::open(testing::memory_config(4), nullptr);
    listen(Secret{"first"});
  }
  void listen(const Secret& secret) {
    listener_.reset();
    auto opened = TcpListener::open(*service_, {SourceKind::kTcp, "127.0.0.1", port_.number()}, secret);
    ASSERT_TRUE(opened.ok()) << opened.error().what();
    listener_ = std::move(*opened);
  }
  // A client's file.
  void write_file(const std::string& text) {
    std::ofstream(file_) << text;
    ASSERT_EQ(::chmod(file_.c_str(), 0600), 0);
  }
  Result<std::unique_ptr<VolumeClient>> open_with_file() {
    return open(*ClientSecret::of_file(file_.string(), nullptr));
  }
  bool is_refused(VolumeClient& client) {
    return eventually([&] { return client.link_state().text.find("the secret differs") != std::string::npos; });
  }
  Result<std::unique_ptr<VolumeClient>> open(const char* secret) { return open(Secret{secret}); }
  Result<std::unique_ptr<VolumeClient>> open(const ClientSecret& secret) {
    VolumeOptions options;
    options.open.client = ClientId{7};
    options.open.client_name = "test";
    options.open.mode = OpenMode::kExclusive;
    Holder holder;
    return VolumeClient::open(make_brick(secret.with(GetParam())), std::move(options), &holder);
  }
  std::unique_ptr<Brick> make_brick(const ClientSecret& secret) const {
    if (!goes_around_) return make_tcp_brick("127.0.0.1", port_.number(), secret);
    return make_brick_with_tcp_around("rdma", {{"127.0.0.1", port_.number()}}, secret,
                                      [] { return make_tcp_brick("127.0.0.1", 1, Secret{}); });  // where nobody is
  }
  std::unique_ptr<BrickService> service_;
  std::unique_ptr<TcpListener> listener_;
  const testing::ReservedPort port_;
  bool goes_around_ = false;
  const testing::TemporaryDirectory directory_;
  const std::filesystem::path file_ = directory_.path("secret");
};

INSTANTIATE_TEST_SUITE_P(Modes, ChangedSecret, ::testing::Values(TlsMode::kOff, TlsMode::kRequire),
                         [](const auto& at) { return std::string(format_tls_mode(at.param)); });

TEST_P(ChangedSecret, SessionsThatAreOpenGoOnAndNewOnesNeedIt) {
  {
    const auto client = open("first");
    ASSERT_TRUE(client.ok());
    listener_->use_secrets({Secret{"second"}});
    EXPECT_TRUE((*client)->alloc({BlockAddress{0}, 1}).ok());
    EXPECT_TRUE((*client)->close().ok());
  }
  EXPECT_EQ(open("first").code(), EACCES);
  EXPECT_TRUE(open("second").ok());
}

TEST_P(ChangedSecret, WhoComesBackIsToldWhyAndIsLetInOnceItIsHisAgain) {
  const auto client = open("first");
  ASSERT_TRUE(client.ok());
  listen(Secret{"second"});
  EXPECT_TRUE(eventually([&] { return (*client)->link_state().text.find("secret") != std::string::npos; }))
      << (*client)->link_state().text;
  EXPECT_EQ((*client)->link_state().kind, LinkState::Kind::kWaiting);
  EXPECT_TRUE((*client)->link_state().error.is(EACCES));
  EXPECT_TRUE((*client)->final_error().ok());
  listener_->use_secrets({Secret{"first"}});
  EXPECT_TRUE((*client)->alloc({BlockAddress{0}, 1}).ok());
  EXPECT_EQ((*client)->link_state().kind, LinkState::Kind::kConnected);
}

TEST_P(ChangedSecret, TwoHoldDuringAChange) {
  listener_->use_secrets({Secret{"first"}, Secret{"second"}});
  EXPECT_TRUE(open("first").ok());
  EXPECT_TRUE(open("second").ok());
  EXPECT_EQ(open("third").code(), EACCES);
  EXPECT_EQ(open("first\nsecond").code(), EACCES);
  listener_->use_secrets({Secret{"second"}});
  EXPECT_EQ(open("first").code(), EACCES);
}

TEST_P(ChangedSecret, AMountReadsItsFileAgainWhenItIsRefused) {
  write_file("first\n");
  const auto client = open_with_file();
  ASSERT_TRUE(client.ok());
  listen(Secret{"second"});
  EXPECT_TRUE(is_refused(**client)) << (*client)->link_state().text;
  write_file("second\nfirst\n");
  EXPECT_TRUE((*client)->alloc({BlockAddress{0}, 1}).ok());
  EXPECT_EQ((*client)->link_state().kind, LinkState::Kind::kConnected);
}

TEST_P(ChangedSecret, SoDoesOneThatIsRedirected) {
  goes_around_ = true;
  write_file("first\n");
  const auto client = open_with_file();
  ASSERT_TRUE(client.ok());
  write_file("second\n");
  listen(Secret{"second"});
  EXPECT_TRUE((*client)->alloc({BlockAddress{0}, 1}).ok());
}

TEST_P(ChangedSecret, OneThatIsChangedFirstAtTheClientIsNotEvenSeen) {
  listener_->use_secrets({Secret{"first"}, Secret{"second"}});
  write_file("first\n");
  const auto client = open_with_file();
  ASSERT_TRUE(client.ok());
  write_file("second\n");
  listener_->use_secrets({Secret{"second"}});
  EXPECT_TRUE((*client)->alloc({BlockAddress{0}, 1}).ok());
  listen(Secret{"second"});  // the session is lost, and the next one begins with what the file has now
  EXPECT_TRUE(eventually([&] { return (*client)->stat().ok(); }));
  EXPECT_TRUE((*client)->final_error().ok());
}

TEST_P(ChangedSecret, AFileThatCannotBeTakenLeavesTheFormerInUse) {
  write_file("first\n");
  const auto client = open_with_file();
  ASSERT_TRUE(client.ok());
  write_file("");
  listen(Secret{"second"});
  EXPECT_TRUE(is_refused(**client)) << (*client)->link_state().text;
  std::filesystem::remove(file_);
  listener_->use_secrets({Secret{"first"}});
  EXPECT_TRUE((*client)->alloc({BlockAddress{0}, 1}).ok());
}

TEST_P(ChangedSecret, WhoIsRefusedAndThenFindsNobodyIsToldThat) {
  const auto client = open("first");
  ASSERT_TRUE(client.ok());
  listen(Secret{"second"});
  EXPECT_TRUE(is_refused(**client)) << (*client)->link_state().text;
  listener_.reset();
  EXPECT_TRUE(eventually([&] { return (*client)->link_state().text.find("unreachable") != std::string::npos; }))
      << (*client)->link_state().text;
}

TEST_P(ChangedSecret, WhoHasNoneAndNeedsOneIsToldThat) {
  if (GetParam() != TlsMode::kOff) GTEST_SKIP() << "TLS needs one";
  listen(Secret{});
  const auto client = open("");
  ASSERT_TRUE(client.ok());
  listen(Secret{"first"});
  EXPECT_TRUE(eventually([&] { return (*client)->link_state().text.find("asks for a secret") != std::string::npos; }))
      << (*client)->link_state().text;
}

}  // namespace
}  // namespace brickfs
