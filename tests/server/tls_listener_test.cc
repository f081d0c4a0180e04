// SPDX-License-Identifier: Apache-2.0
// TLS between clients and a live listener: who is let in, what somebody on the way learns and can do, and that who
// stops in the middle of a handshake holds up nobody.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <random>
#include <string_view>
#include <thread>

#include "tests/support/brick_contract.h"
#include "tests/support/tcp_relay.h"
#include "tests/support/tcp_test_brick.h"
#include "transport/brick/limits.h"
#include "transport/brick/volume_key.h"
#include "transport/brick/wire.h"
#include "transport/paths/administer.h"
#include "transport/paths/connect.h"
#include "transport/tcp/greet.h"
#include "transport/tcp/socket.h"
#include "transport/tcp/tcp_brick.h"

namespace brickfs {
namespace {

using namespace std::chrono_literals;
using testing::alloc_and_map;
using testing::eventually;
using testing::memory_config;
using testing::pattern;
using testing::request_for;
using testing::TcpRelay;
using testing::TcpTestBrick;
using testing::transfer;

const Secret kShared{SecretBytes("what client and brick know")};

class TlsListener : public ::testing::TestWithParam<TlsMode> {
 protected:
  static std::unique_ptr<Brick> client_at(uint16_t port, TlsMode tls, const Secret& secret = kShared) {
    return make_tcp_brick("127.0.0.1", port, ClientSecret(secret).with(tls));
  }
  static Result<Session> open_at(uint16_t port, TlsMode tls, const Secret& secret = kShared) {
    return client_at(port, tls, secret)->open(request_for(7), nullptr);
  }
};

INSTANTIATE_TEST_SUITE_P(Modes, TlsListener, ::testing::Values(TlsMode::kOff, TlsMode::kOn, TlsMode::kRequire),
                         [](const auto& at) { return std::string(format_tls_mode(at.param)); });

// Of each mode of a brick, and each of a client.
TEST_P(TlsListener, EncryptsAsBothEndsWantIt) {
  TcpTestBrick server(memory_config(2), kShared, GetParam());
  for (const TlsMode client : {TlsMode::kOff, TlsMode::kOn, TlsMode::kRequire}) {
    SCOPED_TRACE(format_tls_mode(client));
    const auto session = open_at(server.port(), client);
    const bool both = client != TlsMode::kOff && GetParam() != TlsMode::kOff;
    const bool asked = client == TlsMode::kRequire || GetParam() == TlsMode::kRequire;
    EXPECT_EQ(session.code(), both || !asked ? 0 : ENOPROTOOPT);
    if (session.ok()) {
      EXPECT_EQ(session->transport, both ? "tcp (TLS 1.3)" : "tcp");
    }
    if (session.code() == ENOPROTOOPT) {
      EXPECT_NE(std::string_view(session.error().what()).find(client == TlsMode::kOff ? "tls=on" : "brickd --tls on"),
                std::string_view::npos)
          << session.error().what();
    }
  }
}

TEST_F(TlsListener, AWrongSecretIsRefusedAndCounted) {
  TcpTestBrick server(memory_config(2), kShared, TlsMode::kOn);
  EXPECT_EQ(open_at(server.port(), TlsMode::kOn, Secret{SecretBytes("another")}).code(), EACCES);
  EXPECT_EQ(server.listener().counters().refused_for(Refused::kSecret), 1u);
  EXPECT_EQ(open_at(server.port(), TlsMode::kOn).code(), 0);
}

TEST_F(TlsListener, WithoutASecretNothingIsSaid) {
  TcpTestBrick server(memory_config(2), {}, TlsMode::kOn);
  EXPECT_EQ(open_at(server.port(), TlsMode::kOn, {}).code(), EINVAL);
  EXPECT_EQ(server.listener().counters().admitted_so_far(), 0u);
}

TEST_F(TlsListener, AKeyOfAVolumeEncryptsAndOpensThatAlone) {
  BrickConfig config = memory_config(4);
  config.volumes.push_back({"other", std::nullopt});
  TcpTestBrick server(std::move(config), kShared, TlsMode::kRequire);
  const Secret key = make_key();
  VolumeKey added;
  added.secret = key;
  added.id = key_id_of(key);
  AdminRequest request;
  request.action = AdminAction::kAddKey;
  request.volume = "other";
  request.key = added;
  ASSERT_EQ(server.service().administer(request).status, 0);
  auto brick = client_at(server.port(), TlsMode::kRequire, key);
  auto wanted = request_for(8);
  wanted.volume = "other";
  const auto session = brick->open(wanted, nullptr);
  ASSERT_EQ(session.code(), 0);
  EXPECT_EQ(session->transport, "tcp (TLS 1.3)");
  wanted.volume = "default";
  EXPECT_EQ(client_at(server.port(), TlsMode::kRequire, key)->open(wanted, nullptr).code(), EACCES);
}

// Names and bytes: seen on the way without TLS, and not with it.
TEST_P(TlsListener, WhoListensLearnsNothing) {
  const bool encrypted = GetParam() != TlsMode::kOff;
  BrickConfig config = memory_config(4);
  config.volumes.push_back({"a-volume-with-a-name", std::nullopt});
  TcpTestBrick server(std::move(config), kShared, GetParam());
  TcpRelay relay(server.port());
  auto brick = client_at(relay.port(), GetParam());
  auto request = request_for(9);
  request.volume = "a-volume-with-a-name";
  request.client_name = "a client with a name";
  ASSERT_EQ(brick->open(request, nullptr).code(), 0);
  const auto handles = alloc_and_map(*brick, 0, 1);
  auto bytes = pattern(100'000, 11);
  std::vector<std::byte> got(bytes.size());
  ASSERT_TRUE(transfer(*brick, Direction::kWrite, handles[0], 5, bytes).ok());
  ASSERT_TRUE(transfer(*brick, Direction::kRead, handles[0], 5, got).ok());
  EXPECT_EQ(got, bytes);
  ASSERT_TRUE(brick->close().ok());
  EXPECT_GT(relay.seen_bytes(), 200'000u) << "it does not pass there";
  for (const std::string_view text : {"a-volume-with-a-name", "a client with a name"})
    EXPECT_EQ(relay.has_seen(std::as_bytes(std::span(text))), !encrypted) << text;
  EXPECT_EQ(relay.has_seen(std::span(bytes).subspan(50'000, 16)), !encrypted);
}

// Of a greeting; `hello` or `welcome`, or both, as if one end did not do it.
std::unique_ptr<TcpRelay> stripping_relay(uint16_t brick, bool hello, bool welcome) {
  return std::make_unique<TcpRelay>(
      brick, [hello, welcome](TcpRelay::Way way, uint64_t offset, std::span<std::byte> bytes) {
        if (offset != 0) return;
        if (way == TcpRelay::Way::kToBrick && hello && bytes.size() >= sizeof(wire::Hello)) {
          auto first = load<wire::Hello>(bytes);
          first.features &= ~wire::kTls;
          std::memcpy(bytes.data(), &first, sizeof(first));
        }
        if (way == TcpRelay::Way::kToClient && welcome && bytes.size() >= sizeof(wire::Welcome)) {
          auto first = load<wire::Welcome>(bytes);
          first.features &= ~wire::kTls;
          std::memcpy(bytes.data(), &first, sizeof(first));
        }
      });
}

// Who is on the way cannot have them speak in the clear, though each end would if the other could not.
TEST_F(TlsListener, NobodyOnTheWayTurnsItOff) {
  TcpTestBrick server(memory_config(2), kShared, TlsMode::kOn);
  for (const auto& [hello, welcome] : {std::pair(true, true), std::pair(true, false), std::pair(false, true)}) {
    SCOPED_TRACE(hello ? welcome ? "both" : "hello" : "welcome");
    const auto relay = stripping_relay(server.port(), hello, welcome);
    EXPECT_NE(open_at(relay->port(), TlsMode::kOn).code(), 0);
    EXPECT_NE(open_at(relay->port(), TlsMode::kRequire).code(), 0);
    EXPECT_EQ(server.listener().counters().admitted_so_far(), 0u);
  }
  EXPECT_EQ(open_at(server.port(), TlsMode::kOn).code(), 0);
}

// In what both say, behind the greeting.
TEST_F(TlsListener, AByteChangedOnTheWayEndsTheConnectionAndChangesNothing) {
  TcpTestBrick server(memory_config(4), kShared, TlsMode::kRequire);
  std::mt19937_64 random(31);
  auto good = server.connect();
  ASSERT_EQ(good->open(request_for(1, OpenMode::kObserve), nullptr).code(), 0);
  for (const auto way : {TcpRelay::Way::kToBrick, TcpRelay::Way::kToClient}) {
    for (int round = 0; round < 5; ++round) {
      std::atomic<int64_t> change_at{-1};  // of the next transfer's bytes
      TcpRelay relay(server.port(), [&](TcpRelay::Way of, uint64_t, std::span<std::byte> bytes) {
        if (of != way || change_at.load() < 0 || bytes.size() < 4'000) return;
        bytes[static_cast<size_t>(change_at.exchange(-1)) % bytes.size()] ^= std::byte{4};
      });
      auto brick = client_at(relay.port(), TlsMode::kRequire);
      ASSERT_EQ(brick->open(request_for(50 + round, OpenMode::kExclusive, true), nullptr).code(), 0);
      static_cast<void>(brick->free({BlockAddress{0}, 1}).ok());  // of the round before
      const auto handles = alloc_and_map(*brick, 0, 1);
      const auto before = pattern(kBlockBytes, 40 + round);
      auto bytes = before;
      ASSERT_TRUE(transfer(*brick, Direction::kWrite, handles[0], 0, bytes).ok());
      auto other = pattern(kBlockBytes, 80 + round);
      change_at = static_cast<int64_t>(random() % 1'000'000);
      const Direction direction = way == TcpRelay::Way::kToBrick ? Direction::kWrite : Direction::kRead;
      EXPECT_EQ(transfer(*brick, direction, handles[0], 0, other).code(), ENOTCONN);
      EXPECT_EQ(change_at.load(), -1);
      brick->abandon();
      auto looks = server.connect();
      ASSERT_EQ(looks->open(request_for(90, OpenMode::kExclusive, true), nullptr).code(), 0);
      const auto there = looks->map({BlockAddress{0}, 1}, Access::kReadWrite);
      ASSERT_TRUE(there.ok());
      const auto found = testing::read(*looks, there->front(), 0, kBlockBytes);
      size_t neither = 0;  // what was there, nor what was written over it
      for (size_t at = 0; at < found.size(); ++at)
        neither += found[at] != before[at] && (direction == Direction::kRead || found[at] != other[at]) ? 1 : 0;
      EXPECT_EQ(neither, 0u);
    }
  }
  EXPECT_TRUE(good->stat().ok());
}

// Each stops somewhere else in the middle of it, and says nothing more.
TEST_F(TlsListener, WhoStopsInTheMiddleHoldsUpNobody) {
  TcpTestBrick server(memory_config(2), kShared, TlsMode::kRequire);
  std::vector<UniqueFd> stopped;
  for (int peer = 0; peer < 100; ++peer) {
    auto fd = tcp::connect_to("127.0.0.1", server.port(), tcp::Clock::now() + 60s);
    ASSERT_TRUE(fd.ok());
    wire::Hello hello;
    hello.features |= wire::kTls;
    std::vector<std::byte> said(sizeof(hello));
    std::memcpy(said.data(), &hello, sizeof(hello));
    const std::array<std::byte, 6> half{std::byte{22}, std::byte{3}, std::byte{1},
                                        std::byte{1},  std::byte{0}, std::byte{1}};
    said.insert(said.end(), half.begin(), half.begin() + peer % 7);
    iovec part = tcp::to_iovec(said);
    ASSERT_TRUE(tcp::send_all(fd->get(), std::span(&part, 1)).ok());
    stopped.push_back(*std::move(fd));
  }
  EXPECT_EQ(open_at(server.port(), TlsMode::kRequire).code(), 0) << "it has 8 s in all, and each of those has 4";
  for (const UniqueFd& fd : stopped) {
    std::array<std::byte, 256> rest;
    const iovec part = tcp::to_iovec(rest);
    while (tcp::receive_some(fd.get(), std::span(&part, 1)).ok()) {
    }
    EXPECT_TRUE(tcp::peer_has_gone(fd.get())) << "it is kept";
  }
  EXPECT_EQ(server.listener().counters().admitted_so_far(), 3u) << "with its further connections, the good one alone";
}

TEST_F(TlsListener, RubbishInPlaceOfAHandshakeHarmsNobody) {
  TcpTestBrick server(memory_config(2), kShared, TlsMode::kRequire);
  auto good = server.connect();
  ASSERT_EQ(good->open(request_for(1), nullptr).code(), 0);
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  for (int round = 0; round < 200; ++round) {
    auto fd = tcp::connect_to("127.0.0.1", server.port(), tcp::Clock::now() + 60s);
    ASSERT_TRUE(fd.ok());
    wire::Hello hello;
    hello.features |= wire::kTls;
    std::vector<std::byte> said(sizeof(hello) + random() % 20'000);
    for (std::byte& byte : said) byte = static_cast<std::byte>(random());
    std::memcpy(said.data(), &hello, sizeof(hello));
    const uint8_t record[] = {22, 3, 1, 0x3f, 0xff, 1, 0, 0x3f, 0xfb, 3, 3};  // the head of a long ClientHello
    if (round % 2 == 0 && said.size() > sizeof(hello) + sizeof(record))
      std::memcpy(said.data() + sizeof(hello), record, sizeof(record));
    iovec part = tcp::to_iovec(said);
    static_cast<void>(tcp::send_all(fd->get(), std::span(&part, 1)).ok());
    if (round % 20 == 0) {
      EXPECT_TRUE(good->stat().ok());
    }
  }
  EXPECT_TRUE(good->stat().ok());
}

TEST_F(TlsListener, AnAdministratorsCallIsEncryptedToo) {
  TcpTestBrick server(memory_config(2), kShared, TlsMode::kRequire);
  const Source source = *parse_source("tcp://127.0.0.1:" + std::to_string(server.port()), nullptr);
  AdminRequest request;
  request.action = AdminAction::kList;
  EXPECT_EQ(administer_remote(source, kShared, request).code(), ENOPROTOOPT);
  // It has no administrator's secret, as it says there.
  EXPECT_EQ(administer_remote(source, ClientSecret(kShared).with(TlsMode::kRequire), request).code(), EPERM);
}

TEST_F(TlsListener, WhatIsNotEncryptedIsNotWhatIsRequired) {
  std::string why;
  for (const char* text : {"rdma://192.0.2.1/home", "fabric://192.0.2.1/home"}) {
    const auto brick =
        make_remote_brick(*parse_source(text, &why), ClientSecret(kShared).with(TlsMode::kRequire), &why);
    EXPECT_EQ(brick.code(), EPROTONOSUPPORT);
    EXPECT_NE(why.find("use tcp://"), std::string::npos) << why;
  }
}

}  // namespace
}  // namespace brickfs
