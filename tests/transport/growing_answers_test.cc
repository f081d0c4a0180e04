// SPDX-License-Identifier: Apache-2.0
// Clients and bricks of different age: answers that are longer than their reader knows, or shorter, and features that
// somebody changes on the way.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <functional>
#include <thread>

#include "tests/support/tcp_test_brick.h"
#include "transport/brick/refusal.h"
#include "transport/remote/call_channel.h"
#include "transport/tcp/socket.h"
#include "transport/tcp/tcp_brick.h"
#include "transport/tcp/tcp_channel.h"

namespace brickfs {
namespace {

using namespace std::chrono_literals;
using testing::memory_config;
using testing::request_for;

const Secret kOurs{"both know it"};

OpenRequest observer() { return request_for(1, OpenMode::kObserve); }

std::vector<std::byte> lengthened(std::vector<std::byte> body, size_t bytes) {
  body.resize(body.size() + bytes, std::byte{7});
  return body;
}

// A brick of another age: what its greeting says that it knows, what it goes by itself, and how it lays out answers.
class AgedBrick {
 public:
  struct Age {
    uint64_t said_features = 0;
    uint64_t features = 0;  // else somebody changed them on the way
    std::function<std::vector<std::byte>(const wire::OpenAnswer&)> opened;
    std::vector<std::byte> stat;
  };
  explicit AgedBrick(Age age) : age_(std::move(age)), listening_(*tcp::listen_on("127.0.0.1", 0)) {
    thread_ = std::thread([this] { serve_one(); });
  }
  ~AgedBrick() {
    tcp::shut_down(listening_.get());
    thread_.join();
  }
  std::unique_ptr<Brick> connect() const {
    return make_tcp_brick("127.0.0.1", *tcp::local_port(listening_.get()), kOurs);
  }

 private:
  void serve_one() {
    UniqueFd fd(::accept(listening_.get(), nullptr, nullptr));
    if (!fd) return;
    wire::Hello hello;
    if (!tcp::receive_before(fd.get(), std::as_writable_bytes(std::span(&hello, 1)), soon()).ok()) return;
    wire::Welcome welcome;
    welcome.nonce = random_nonce();
    welcome.features = age_.said_features;
    iovec part = tcp::to_iovec(bytes_of(welcome));
    if (!tcp::send_all(fd.get(), std::span(&part, 1)).ok()) return;
    const Nonces nonces{hello.nonce, welcome.nonce, hello.features, age_.features};
    tcp::TcpChannel channel(std::move(fd));
    for (auto call = channel.receive(soon()); call.ok(); call = channel.receive(soon())) {
      const auto kind = wire::Kind{call->header.kind};
      if (!channel.send(answer_header(call->header, 0), answer_to(kind, nonces)).ok()) return;
    }
  }
  std::vector<std::byte> answer_to(wire::Kind kind, const Nonces& nonces) const {
    if (kind == wire::Kind::kStat) return age_.stat;
    if (kind != wire::Kind::kOpen) return {};
    wire::OpenAnswer answer;
    answer.epoch = 3;
    answer.durability = static_cast<uint32_t>(Durability::kVolatile);
    const auto body = age_.opened(answer);
    return wire::encode(body, make_proof(kOurs, wire::kOpenedPurpose, nonces, body));
  }
  static Deadline soon() { return tcp::Clock::now() + 60s; }

  const Age age_;
  const UniqueFd listening_;
  std::thread thread_;
};

std::vector<std::byte> stat_body() {
  BrickStat stat;
  stat.durability = Durability::kVolatile;
  stat.sessions = 5;
  stat.medium = "memory";
  return calls::encode(stat);
}

TEST(GrowingAnswers, AnOlderBricksAnswerIsCompleted) {
  const AgedBrick brick(
      {0, 0, [](const auto& answer) { return wire::encode(wire::grown_bytes_of(answer, 0)); }, stat_body()});
  const auto client = brick.connect();
  const auto session = client->open(observer(), nullptr);
  ASSERT_EQ(session.code(), 0);
  EXPECT_EQ(session->epoch, Epoch{3});
  EXPECT_EQ(session->lease, limits::kLease);
}

TEST(GrowingAnswers, OfANewerBricksAnswersIsReadWhatIsKnown) {
  const auto opened = [](wire::OpenAnswer answer) {
    answer.lease_ms = 60'000;
    return lengthened(wire::encode(bytes_of(answer)), 40);
  };
  constexpr uint64_t kNewer = ~wire::kEchoes;  // it does not echo, which is another test's
  const AgedBrick brick({kNewer, kNewer, opened, lengthened(stat_body(), 8)});
  const auto client = brick.connect();
  const auto session = client->open(observer(), nullptr);
  ASSERT_EQ(session.code(), 0);
  EXPECT_EQ(session->epoch, Epoch{3});
  EXPECT_EQ(session->lease, 60s);
  const auto stat = client->stat();
  ASSERT_EQ(stat.code(), 0);
  EXPECT_EQ(stat->sessions, 5u);
  EXPECT_EQ(stat->medium, "memory");
}

TEST(GrowingAnswers, OneShorterThanEverIsNonsense) {
  auto less = stat_body();
  less.pop_back();
  const AgedBrick brick({1, 1, [](const auto& answer) { return wire::encode(bytes_of(answer)); }, less});
  const auto client = brick.connect();
  ASSERT_EQ(client->open(observer(), nullptr).code(), 0);
  EXPECT_EQ(client->stat().code(), EPROTO);
  const AgedBrick other(
      {1, 1, [](const auto& answer) { return wire::encode(bytes_of(answer).first(answer.kLeastBytes - 1)); }, {}});
  EXPECT_EQ(other.connect()->open(observer(), nullptr).code(), EPROTO);
}

TEST(GrowingAnswers, AnOlderBrickIsNotAskedForNotifications) {
  const auto age = AgedBrick::Age{
      3, 3, [](const auto& answer) { return wire::encode(wire::grown_bytes_of(answer, 3)); }, stat_body()};
  const AgedBrick brick(age);
  const auto client = brick.connect();
  const auto session = client->open(observer(), nullptr);
  ASSERT_EQ(session.code(), 0);
  EXPECT_FALSE(session->notifications);
  EXPECT_EQ(client->notify(1, 2).code(), EOPNOTSUPP);
  const calls::Seen seen{.tag = 1};
  EXPECT_EQ(client->wait_for_notices(std::span(&seen, 1), 1s).code(), EOPNOTSUPP);
  EXPECT_EQ(client->stat().code(), 0);  // the session goes on
  const AgedBrick other(age);
  OpenRequest follower = observer();
  follower.mode = OpenMode::kFollow;
  EXPECT_EQ(other.connect()->open(follower, nullptr).code(), EOPNOTSUPP);
}

TEST(GrowingAnswers, AnOlderBrickIsNotAskedForFollowersThatWrite) {
  constexpr uint64_t kOlder = 1 | 2 | 4 | 16;
  const auto age = AgedBrick::Age{kOlder, kOlder,
                                  [](const auto& answer) { return wire::encode(wire::grown_bytes_of(answer, kOlder)); },
                                  stat_body()};
  const AgedBrick brick(age);
  const auto client = brick.connect();
  const auto session = client->open(observer(), nullptr);
  ASSERT_EQ(session.code(), 0);
  EXPECT_FALSE(session->writing_followers);
  EXPECT_EQ(client->admit(ClientId{7}).code(), EOPNOTSUPP);
  EXPECT_EQ(client->expel(ClientId{7}).code(), EOPNOTSUPP);
  EXPECT_EQ(client->stat().code(), 0);  // the session goes on
  OpenRequest writer = observer();
  writer.mode = OpenMode::kFollow;
  writer.bound = writer.writes = true;
  writer.resume = Epoch{3};
  const AgedBrick other(age);
  EXPECT_EQ(other.connect()->open(writer, nullptr).code(), EOPNOTSUPP);
}

// Else whoever is between the two could have them do without what both know.
TEST(GrowingAnswers, ChangedFeaturesAreFoundOut) {
  const AgedBrick brick({0, 1, [](const auto& answer) { return wire::encode(wire::grown_bytes_of(answer, 0)); }, {}});
  EXPECT_EQ(brick.connect()->open(observer(), nullptr).code(), EACCES);
}

// A brick of ours and a client that knows such features.
Result<Reply> open_with(const testing::TcpTestBrick& brick, uint64_t said, uint64_t features) {
  auto fd = tcp::connect_to("127.0.0.1", brick.port(), tcp::Clock::now() + 5s);
  if (!fd.ok()) return fd.error();
  wire::Hello hello;
  hello.nonce = random_nonce();
  hello.features = said;
  iovec part = tcp::to_iovec(bytes_of(hello));
  TRY(tcp::send_all(fd->get(), std::span(&part, 1)));
  wire::Welcome welcome;
  TRY(tcp::receive_before(fd->get(), std::as_writable_bytes(std::span(&welcome, 1)), tcp::Clock::now() + 5s));
  tcp::TcpChannel channel(std::move(*fd));
  wire::OpenCall call = wire::to_call(observer());
  call.proof = wire::prove(kOurs, wire::kOpenPurpose, {hello.nonce, welcome.nonce, features, welcome.features}, call);
  return exchange(channel, wire::Kind::kOpen, 0, bytes_of(call), tcp::Clock::now() + 5s);
}

TEST(GrowingAnswers, AnOlderClientGetsNoMoreThanItKnows) {
  BrickConfig config = memory_config(1);
  config.lease = 30s;
  const testing::TcpTestBrick brick(config, kOurs);
  const auto old = open_with(brick, 0, 0);
  ASSERT_TRUE(old.ok() && old->status == 0);
  EXPECT_EQ(old->body.size(), wire::OpenAnswer::kLeastBytes + sizeof(Proof));
  const auto ours = open_with(brick, wire::kGrowingAnswers, wire::kGrowingAnswers);
  ASSERT_TRUE(ours.ok() && ours->status == 0);
  ASSERT_EQ(ours->body.size(), sizeof(wire::OpenAnswer) + sizeof(Proof));
  EXPECT_EQ(load<wire::OpenAnswer>(ours->body).lease_ms, 30'000u);
  const auto newer = open_with(brick, ~uint64_t{0}, ~uint64_t{0});
  EXPECT_TRUE(newer.ok() && newer->status == 0);
  const auto changed = open_with(brick, 0, wire::kGrowingAnswers);
  EXPECT_TRUE(changed.ok() && changed->status == EACCES);
}

}  // namespace
}  // namespace brickfs
