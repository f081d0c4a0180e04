// SPDX-License-Identifier: Apache-2.0
// A live listener among peers that send rubbish, stall, replay or die, while a well-behaved client goes on.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <deque>
#include <random>
#include <thread>

#include "server/service/server_limits.h"
#include "server/tcp/listener.h"
#include "tests/support/brick_contract.h"
#include "tests/support/raw_connection.h"
#include "tests/support/tcp_test_brick.h"
#include "transport/accept/accept_limits.h"
#include "transport/brick/limits.h"
#include "transport/brick/wire.h"
#include "transport/tcp/socket.h"

namespace brickfs {
namespace {

using namespace std::chrono_literals;
using testing::alloc_and_map;
using testing::eventually;
using testing::memory_config;
using testing::pattern;
using testing::raw_attach;
using testing::raw_open;
using testing::RawPeer;
using testing::request_for;
using testing::takes_less_than;
using testing::TcpTestBrick;
using testing::transfer;

tcp::Deadline soon() { return tcp::Clock::now() + 60s; }

BrickConfig two_volumes(uint64_t blocks) {
  BrickConfig config = memory_config(blocks);
  config.volumes.push_back({"other", std::nullopt});
  return config;
}

// Bytes in, whatever becomes of them.
void throw_at(int fd, std::span<const std::byte> bytes) {
  iovec part = tcp::to_iovec(bytes);
  const Status ignored = tcp::send_all(fd, std::span(&part, 1));
  static_cast<void>(ignored);
}

bool is_closed_soon(int fd) {
  std::array<std::byte, 256> rest;
  const iovec part = tcp::to_iovec(rest);
  while (tcp::wait_readable(fd, soon()).ok()) {
    if (!tcp::receive_some(fd, std::span(&part, 1)).ok()) return true;
  }
  return false;
}

// A client that speaks for itself, frame by frame.
struct RawClient {
  RawPeer peer;
  std::unique_ptr<tcp::TcpChannel> calls;
  UniqueFd data;
  wire::Token token{};
  Handle handle;

  RawClient(const TcpTestBrick& server, const OpenRequest& request) : peer{{"127.0.0.1", server.port()}, {}} {
    auto opened = raw_open(peer, request, soon());
    EXPECT_EQ(opened.code(), 0);
    if (!opened.ok()) return;
    calls = std::move(opened->channel);
    token = opened->token;
    auto attached = raw_attach(peer, token, soon());
    EXPECT_EQ(attached.code(), 0);
    if (attached.ok()) data = std::move(*attached);
  }
  void alloc_and_map_one() {
    const BlockRange range{BlockAddress{0}, 1};
    EXPECT_EQ(call(1, calls::Alloc{range}).status, 0);
    const calls::Request map = calls::Map{range, Access::kReadWrite};
    handle = std::get<calls::Mapped>(*calls::decode_answer(map, call(2, map).body)).handles.front();
  }
  Reply call(uint64_t id, const calls::Request& request) const {
    const auto reply = exchange(*calls, calls::kind_of(request), id, calls::encode(request), soon());
    EXPECT_TRUE(reply.ok());
    return reply.ok() ? *reply : Reply{EIO, {}};
  }
  wire::TransferHeader header(uint32_t kind, uint32_t length) const {
    return {kind, handle.remote_key, handle.remote_address, 1, length, 0};
  }
};

// Works on its own volume all along and checks every byte.
class GoodClient {
 public:
  explicit GoodClient(TcpTestBrick& server) : brick_(server.connect()) {
    auto request = request_for(99);
    request.volume = "other";
    EXPECT_EQ(brick_->open(request, nullptr).code(), 0);
    handles_ = alloc_and_map(*brick_, 0, 1);
    thread_ = std::thread([this] { work(); });
  }
  ~GoodClient() {
    stop_ = true;
    thread_.join();
    EXPECT_GT(rounds_, 0);
  }

 private:
  void work() {
    do {
      auto bytes = pattern(10'000, static_cast<unsigned>(++rounds_));
      std::vector<std::byte> got(bytes.size());
      const auto start = tcp::Clock::now();
      ASSERT_TRUE(transfer(*brick_, Direction::kWrite, handles_[0], 77, bytes).ok());
      ASSERT_TRUE(transfer(*brick_, Direction::kRead, handles_[0], 77, got).ok());
      ASSERT_EQ(got, bytes);
      ASSERT_TRUE(brick_->stat().ok());
      ASSERT_LT(tcp::Clock::now() - start, 60s) << "somebody held a well-behaved client up";
    } while (!stop_);
  }

  std::unique_ptr<Brick> brick_;
  std::vector<Handle> handles_;
  std::atomic<bool> stop_{false};
  int rounds_ = 0;
  std::thread thread_;
};

TEST(TcpListener, RubbishHarmsNobody) {
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  TcpTestBrick server(two_volumes(4));
  const GoodClient good(server);
  for (int round = 0; round < 60; ++round) {
    const auto fd = tcp::connect_to("127.0.0.1", server.port(), soon());
    ASSERT_TRUE(fd.ok());
    std::vector<std::byte> bytes(random() % 5000);
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
    if (round % 2 == 0) {  // rubbish behind a fair greeting
      const wire::Hello hello;
      throw_at(fd->get(), bytes_of(hello));
    }
    throw_at(fd->get(), bytes);
  }
}

TEST(TcpListener, RubbishInASessionEndsItAtMost) {
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  TcpTestBrick server(two_volumes(4));
  const GoodClient good(server);
  for (int round = 0; round < 40; ++round) {
    RawClient client(server, request_for(100 + round, OpenMode::kExclusive, true));
    for (int i = 0; i < 20; ++i) {
      wire::CallHeader header;
      header.kind = static_cast<uint16_t>(random() % 14);
      header.id = random();
      header.length_bytes = static_cast<uint32_t>(random() % 8 == 0 ? random() : random() % 100);
      std::vector<std::byte> body(std::min<uint32_t>(header.length_bytes, 5000));
      for (std::byte& byte : body) byte = static_cast<std::byte>(random() % 3 == 0 ? random() : 0);
      throw_at(client.calls->fd(), bytes_of(header));
      throw_at(client.calls->fd(), body);
      wire::TransferHeader transfer =
          client.header(i % 2 == 0 ? wire::kReadTransfer : wire::kWriteTransfer, random() % 4096);
      if (random() % 3 == 0) transfer.length_bytes = static_cast<uint32_t>(random());
      if (random() % 3 == 0) transfer.kind = static_cast<uint32_t>(random());
      transfer.remote_address = random();
      transfer.remote_key = static_cast<uint32_t>(random() % 4);
      throw_at(client.data.get(), bytes_of(transfer));
    }
  }
}

TEST(TcpListener, AbsurdLengthsCloseTheConnection) {
  TcpTestBrick server(memory_config(2));
  RawClient client(server, request_for(1));
  client.alloc_and_map_one();
  throw_at(client.data.get(), bytes_of(client.header(wire::kReadTransfer, UINT32_MAX)));
  EXPECT_TRUE(is_closed_soon(client.data.get()));
  wire::CallHeader header;
  header.kind = static_cast<uint16_t>(wire::Kind::kCommit);
  header.length_bytes = UINT32_MAX;
  throw_at(client.calls->fd(), bytes_of(header));
  EXPECT_TRUE(is_closed_soon(client.calls->fd()));
}

TEST(TcpListener, TransfersBesideTheHandleAreRefusedAndTheConnectionGoesOn) {
  TcpTestBrick server(memory_config(2));
  RawClient client(server, request_for(1));
  client.alloc_and_map_one();
  wire::TransferHeader beyond = client.header(wire::kWriteTransfer, 4096);
  beyond.remote_address += kBlockBytes - 4095;
  throw_at(client.data.get(), bytes_of(beyond));
  throw_at(client.data.get(), std::vector<std::byte>(4096));
  wire::TransferAnswer answer;
  ASSERT_TRUE(tcp::receive_all(client.data.get(), std::as_writable_bytes(std::span(&answer, 1))).ok());
  EXPECT_EQ(answer.status, static_cast<uint32_t>(EACCES));
  wire::TransferHeader wrapped = client.header(wire::kReadTransfer, 4096);
  wrapped.remote_address = UINT64_MAX - 10;
  throw_at(client.data.get(), bytes_of(wrapped));
  ASSERT_TRUE(tcp::receive_all(client.data.get(), std::as_writable_bytes(std::span(&answer, 1))).ok());
  EXPECT_EQ(answer.status, static_cast<uint32_t>(EACCES));
  throw_at(client.data.get(), bytes_of(client.header(wire::kReadTransfer, 1)));
  std::array<std::byte, sizeof(answer) + 1> good;
  ASSERT_TRUE(tcp::receive_all(client.data.get(), good).ok());
  EXPECT_EQ(load<wire::TransferAnswer>(good).status, 0u);
}

TEST(TcpListener, TokensAreNotGuessedAndProofsNotPlayedAgain) {
  TcpTestBrick server(memory_config(2), Secret{"secret"});
  const RawPeer peer{{"127.0.0.1", server.port()}, Secret{"secret"}};
  const auto opened = raw_open(peer, request_for(1), soon());
  ASSERT_TRUE(opened.ok());
  wire::Token wrong = opened->token;
  wrong[0] ^= std::byte{1};
  EXPECT_EQ(raw_attach(peer, wrong, soon()).code(), EACCES);
  EXPECT_EQ(raw_attach({peer.address, Secret{"wrong"}}, opened->token, soon()).code(), EACCES);
  EXPECT_EQ(raw_attach(peer, opened->token, soon()).code(), 0);

  // Everything a client sent on a connection, sent once more: the brick's nonce is another.
  const Nonces nonces{random_nonce(), random_nonce()};
  wire::Hello hello;
  hello.nonce = nonces.client;
  wire::AttachCall call;
  call.token = opened->token;
  call.role = static_cast<uint32_t>(wire::Role::kTransfers);
  call.proof = wire::prove(peer.secret, wire::kAttachPurpose, nonces, call);
  auto fd = tcp::connect_to(peer.address.host, peer.address.port, soon());
  throw_at(fd->get(), bytes_of(hello));
  wire::Welcome welcome;
  ASSERT_TRUE(tcp::receive_before(fd->get(), std::as_writable_bytes(std::span(&welcome, 1)), soon()).ok());
  tcp::TcpChannel channel(std::move(*fd));
  const auto answer = exchange(channel, wire::Kind::kAttach, 0, bytes_of(call), soon());
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(answer->status, EACCES);
}

TEST(TcpListener, OtherVersionsAreToldSo) {
  TcpTestBrick server(memory_config(1));
  const auto fd = tcp::connect_to("127.0.0.1", server.port(), soon());
  wire::Hello hello;
  hello.version = 99;
  throw_at(fd->get(), bytes_of(hello));
  wire::Welcome welcome;
  ASSERT_TRUE(tcp::receive_before(fd->get(), std::as_writable_bytes(std::span(&welcome, 1)), soon()).ok());
  EXPECT_EQ(welcome.magic, wire::kMagic);
  EXPECT_EQ(welcome.version, wire::kVersion);
  EXPECT_EQ(welcome.status, EPROTO);
}

TEST(TcpListener, SilentPeersAreShownOut) {
  TcpTestBrick server(memory_config(1));
  const auto fd = tcp::connect_to("127.0.0.1", server.port(), soon());
  const auto start = tcp::Clock::now();
  EXPECT_TRUE(is_closed_soon(fd->get()));
  EXPECT_GE(tcp::Clock::now() - start, limits::kHandshakeTimeout - 500ms);
}

// Beside ten times as many as there are places.
tcp::Clock::duration time_to_get_in() {
  TcpTestBrick server(memory_config(2));
  std::vector<UniqueFd> peers;
  for (size_t i = 0; i < 10 * limits::kTcpUnauthenticatedOfHost; ++i) {
    auto fd = tcp::connect_to("127.0.0.1", server.port(), soon());
    EXPECT_TRUE(fd.ok());
    if (!fd.ok()) break;
    const wire::Hello hello;
    if (i % 2 == 0) throw_at(fd->get(), bytes_of(hello));
    peers.push_back(*std::move(fd));
  }
  const auto start = tcp::Clock::now();
  const auto brick = server.connect();
  EXPECT_EQ(brick->open(request_for(1), nullptr).code(), 0);
  EXPECT_TRUE(brick->stat().ok());
  EXPECT_TRUE(is_closed_soon(peers.front().get()));
  return tcp::Clock::now() - start;
}

// Who comes then gets in, and the peers' connections are gone, before they would be shown out; in one of ten tries, on
// a machine that has much to do.
TEST(TcpListener, HalfOpenConnectionsKeepNobodyOut) {
  bool in_time = false;
  for (int tried = 0; tried < 10 && !in_time; ++tried) in_time = time_to_get_in() < limits::kHandshakeTimeout;
  EXPECT_TRUE(in_time);
}

TEST(TcpListener, GuessesAreRefusedEverLater) {
  const Secret secret{"secret"};
  const auto guess = [](const TcpTestBrick& server) {
    EXPECT_EQ(raw_open({{"127.0.0.1", server.port()}, Secret{"guess"}}, request_for(2), soon()).code(), EACCES);
  };
  EXPECT_TRUE(takes_less_than(limits::kDelayOfGuess, [&] { guess(TcpTestBrick(memory_config(1), secret)); }));

  TcpTestBrick server(memory_config(2), secret);
  const RawPeer right{{"127.0.0.1", server.port()}, secret};
  const auto opened = raw_open(right, request_for(1), soon());
  ASSERT_TRUE(opened.ok());
  for (int failed = 0; failed < 3; ++failed) {
    const auto start = tcp::Clock::now();
    guess(server);
    EXPECT_GE(tcp::Clock::now() - start, failed * limits::kDelayOfGuess);
  }
  // Who knows it does not wait for them, though he comes from there.
  EXPECT_TRUE(takes_less_than(limits::kDelayOfGuess, [&] {
    EXPECT_EQ(raw_open(right, request_for(3, OpenMode::kObserve), soon()).code(), 0);
  }));
  EXPECT_TRUE(
      takes_less_than(limits::kDelayOfGuess, [&] { EXPECT_EQ(raw_attach(right, opened->token, soon()).code(), 0); }));
}

// Guesses and silent connections, all from the address of who knows the secret, as fast as they can be made.
TEST(TcpListener, NobodyLocksOutWhoKnowsTheSecret) {
  TcpTestBrick server(memory_config(2), Secret{"secret"});
  const RawPeer wrong{{"127.0.0.1", server.port()}, Secret{"guess"}};
  for (int i = 0; i < 2; ++i) EXPECT_EQ(raw_open(wrong, request_for(2), soon()).code(), EACCES);
  std::atomic<bool> stop{false};
  std::atomic<size_t> silent{0};
  std::thread peer([&] {
    std::deque<UniqueFd> peers;
    for (; !stop; ++silent) {
      auto fd = tcp::connect_to("127.0.0.1", server.port(), soon());
      if (!fd.ok()) continue;
      peers.push_back(*std::move(fd));
      if (peers.size() > 2 * limits::kTcpUnauthenticatedOfHost) peers.pop_front();
      std::this_thread::sleep_for(1ms);
    }
  });
  EXPECT_TRUE(eventually([&] { return silent > limits::kTcpUnauthenticatedOfHost; }));
  const RawPeer right{wrong.address, Secret{"secret"}};
  for (uint64_t i = 0; i < 20; ++i)
    EXPECT_EQ(raw_open(right, request_for(10 + i, OpenMode::kObserve), soon()).code(), 0) << i;
  stop = true;
  peer.join();
}

TEST(TcpListener, ASessionHasSoManyConnections) {
  TcpTestBrick server(memory_config(2));
  RawClient client(server, request_for(1));
  std::vector<UniqueFd> more;
  int code = 0;
  while (code == 0 && more.size() < 100) {
    auto attached = raw_attach(client.peer, client.token, soon());
    code = attached.code();
    if (attached.ok()) more.push_back(*std::move(attached));
  }
  EXPECT_EQ(code, ENOBUFS);
  EXPECT_EQ(more.size() + 2, limits::kConnectionsPerSession);
  more.clear();
  EXPECT_TRUE(eventually([&] { return raw_attach(client.peer, client.token, soon()).ok(); }));
}

// A holder that stops in the middle of a transfer, either way, is cut off by a thief at once, and nothing of his lands.
TEST(TcpListener, StallingHolderIsStolenFrom) {
  for (const uint32_t kind : {wire::kReadTransfer, wire::kWriteTransfer}) {
    TcpTestBrick server(two_volumes(4));
    const GoodClient good(server);
    RawClient staller(server, request_for(1));
    staller.alloc_and_map_one();
    // Far more than the sockets hold, when it is a read; half of the bytes, when it is a write.
    for (int i = 0; i < (kind == wire::kReadTransfer ? 32 : 1); ++i)
      throw_at(staller.data.get(), bytes_of(staller.header(kind, kBlockBytes)));
    if (kind == wire::kWriteTransfer)
      throw_at(staller.data.get(), std::vector<std::byte>(kBlockBytes / 2, std::byte{1}));
    std::this_thread::sleep_for(200ms);
    const auto thief = server.connect();
    EXPECT_EQ(thief->open(request_for(2), nullptr).code(), EBUSY);
    ASSERT_TRUE(thief->open(request_for(2, OpenMode::kExclusive, true), nullptr).ok());
    const auto handle = thief->map({BlockAddress{0}, 1}, Access::kReadWrite)->front();
    auto bytes = pattern(kBlockBytes, 8);
    ASSERT_TRUE(transfer(*thief, Direction::kWrite, handle, 0, bytes).ok());
    throw_at(staller.data.get(), std::vector<std::byte>(kBlockBytes / 2, std::byte{2}));
    std::vector<std::byte> got(kBlockBytes);
    ASSERT_TRUE(transfer(*thief, Direction::kRead, handle, 0, got).ok());
    EXPECT_EQ(got, bytes);
    EXPECT_TRUE(is_closed_soon(staller.calls->fd()));
  }
}

TEST(TcpListener, SilentHolderIsCutOff) {
  TcpTestBrick server(memory_config(2));
  const RawClient silent(server, request_for(1));
  server.service().expire_silent(std::chrono::steady_clock::now() + limits::kLease + 1s);
  EXPECT_TRUE(is_closed_soon(silent.calls->fd()));
  EXPECT_TRUE(is_closed_soon(silent.data.get()));
  EXPECT_EQ(server.connect()->open(request_for(2), nullptr).code(), 0);
}

// Perhaps before it has its answer, on a machine that has much to do.
TEST(TcpListener, SilentHoldersAreLookedFor) {
  BrickConfig config = memory_config(2);
  config.lease = 500ms;
  TcpTestBrick server(config);
  const auto opened = raw_open({{"127.0.0.1", server.port()}, {}}, request_for(1), soon());
  if (opened.ok()) {
    EXPECT_TRUE(is_closed_soon(opened->channel->fd()));
  }
  EXPECT_TRUE(eventually([&] { return server.service().numbers().cut_off_silent == 1; }));
}

TEST(TcpListener, SessionEndsWithItsFirstConnection) {
  TcpTestBrick server(memory_config(2));
  RawClient client(server, request_for(1));
  client.calls.reset();
  EXPECT_TRUE(is_closed_soon(client.data.get()));
  EXPECT_TRUE(eventually([&] { return server.connect()->open(request_for(2), nullptr).ok(); }));
  EXPECT_EQ(raw_attach(client.peer, client.token, soon()).code(), EACCES);
}

TEST(TcpListener, PortInUseIsAnError) {
  TcpTestBrick server(memory_config(1));
  std::string why;
  const auto service = BrickService::open(memory_config(1), &why);
  ASSERT_TRUE(service.ok());
  EXPECT_EQ(TcpListener::open(**service, {SourceKind::kTcp, "127.0.0.1", server.port()}, {}).code(), EADDRINUSE);
}

TEST(TcpListener, ManyClientsComeAndGo) {
  TcpTestBrick server(memory_config(8));
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 8; ++t) {
    threads.emplace_back([&server, t] {
      for (uint64_t i = 0; i < 10; ++i) {
        const auto brick = server.connect();
        ASSERT_EQ(brick->open(request_for(1 + t * 100 + i, OpenMode::kReadOnly), nullptr).code(), 0);
        ASSERT_TRUE(brick->stat().ok());
        const bool politely = i % 2 == 0;
        EXPECT_EQ(politely ? brick->close().code() : 0, 0);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace brickfs
