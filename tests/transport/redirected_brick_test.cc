// SPDX-License-Identifier: Apache-2.0
// Two paths to one real brick behind TCP: one with faults, and the way around it.
#include "transport/paths/redirected_brick.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

#include "server/service/embedded_brick.h"
#include "tests/support/brick_contract.h"
#include "tests/support/faulty_brick.h"
#include "tests/support/tcp_test_brick.h"
#include "transport/paths/connect.h"
#include "transport/tcp/tcp_brick.h"
#include "transport/volume/volume_client.h"

namespace brickfs {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using testing::blocks;
using testing::eventually;
using testing::request_for;
using testing::TcpTestBrick;

constexpr PathTimes kSoon{.first_probe = milliseconds(20),
                          .most_between_probes = milliseconds(80),
                          .healthy = milliseconds(60),
                          .trial = milliseconds(0)};

BrickConfig durable(const testing::TemporaryDirectory& directory) {
  BrickConfig config = testing::memory_config(64);
  config.store_path = directory.path("store");
  config.store_bytes = 64 * kBlockBytes;
  return config;
}

// A brick, and the faults of the wanted path to it: of the sessions, and of the probes that look after it.
struct TwoPaths {
  explicit TwoPaths(BrickConfig config = testing::memory_config(64)) : server(std::move(config)) {}

  void refuse(bool refused) const {
    sessions->refuse(refused);
    probes->refuse(refused);
  }
  void fail() const {
    refuse(true);
    sessions->lose();
  }
  std::unique_ptr<Brick> connect(PathTimes times = kSoon) {
    return make_redirected_brick(
        {sessions->make_brick(), server.connect(), [this] { return probes->make_brick(); }, nullptr, {"rdma", "tcp"}},
        times);
  }

  TcpTestBrick server;
  const std::shared_ptr<BrickFaults> sessions = std::make_shared<BrickFaults>([this] { return server.connect(); });
  const std::shared_ptr<BrickFaults> probes = std::make_shared<BrickFaults>([this] { return server.connect(); });
};

bool is_redirected(const std::string& transport) { return transport.starts_with("tcp, redirected: rdma failed: "); }

TEST(RedirectedBrick, TakesTheWantedPathIfItWorks) {
  TwoPaths paths;
  const auto brick = paths.connect();
  const auto session = brick->open(request_for(1), nullptr);
  ASSERT_TRUE(session.ok());
  EXPECT_EQ(session->transport, "tcp");
  EXPECT_EQ(brick->stat()->transport, "tcp");
  EXPECT_EQ(paths.sessions->sessions(), 1u);
  EXPECT_TRUE(brick->close().ok());
}

TEST(RedirectedBrick, GoesAroundAndSaysWhy) {
  TwoPaths paths;
  paths.refuse(true);
  const auto brick = paths.connect();
  const auto session = brick->open(request_for(1), nullptr);
  ASSERT_TRUE(session.ok());
  EXPECT_EQ(session->transport, "tcp, redirected: rdma failed: refused: Connection refused");
  EXPECT_EQ(brick->stat()->transport, session->transport);
  const auto handles = testing::alloc_and_map(*brick, 0, 1);
  EXPECT_TRUE(testing::write(*brick, handles[0], 0, testing::pattern(64, 1)).ok());
  EXPECT_EQ(testing::read(*brick, handles[0], 0, 64), testing::pattern(64, 1));
  EXPECT_TRUE(brick->close().ok());
}

TEST(RedirectedBrick, AnAnswerOfTheBrickIsNoFailureOfThePath) {
  TwoPaths paths;
  const auto holder = paths.server.connect();
  ASSERT_TRUE(holder->open(request_for(9), nullptr).ok());
  const auto brick = paths.connect();
  Holder who;
  EXPECT_EQ(brick->open(request_for(1), &who).code(), EBUSY);
  EXPECT_EQ(who.name, "client 9");
  auto request = request_for(1);
  request.volume = "nosuch";
  EXPECT_EQ(brick->open(request, nullptr).code(), ENOENT);
  EXPECT_TRUE(holder->close().ok());
  // And the same by the way around, when that is all there is.
  paths.refuse(true);
  EXPECT_EQ(brick->open(request, nullptr).code(), ENOENT);
}

TEST(RedirectedBrick, WithoutAnyPathTellsTheErrorOfTheWantedOne) {
  TwoPaths paths;
  paths.refuse(true);
  const auto brick = make_redirected_brick({paths.sessions->make_brick(),
                                            make_tcp_brick("127.0.0.1", 9, {}),
                                            [&] { return paths.probes->make_brick(); },
                                            nullptr,
                                            {"rdma", "tcp"}},
                                           kSoon);
  const auto session = brick->open(request_for(1), nullptr);
  EXPECT_EQ(session.code(), ECONNREFUSED);
  EXPECT_STREQ(session.error().what(), "refused");
  EXPECT_EQ(brick->stat().code(), ENOTCONN);
}

TEST(RedirectedBrick, HandlesOfAnotherSessionReachNoPath) {
  TwoPaths paths;
  const auto brick = paths.connect();
  const auto first = brick->open(request_for(1), nullptr);
  ASSERT_TRUE(first.ok());
  const Handle old = testing::alloc_and_map(*brick, 0, 1).front();
  ASSERT_TRUE(testing::write(*brick, old, 0, testing::pattern(64, 1)).ok());
  paths.fail();
  auto again = request_for(1);
  again.resume = first->epoch;
  const auto second = brick->open(again, nullptr);
  ASSERT_TRUE(second.ok());
  EXPECT_TRUE(is_redirected(second->transport));
  const auto fresh = brick->map(blocks(0), Access::kReadWrite);
  ASSERT_TRUE(fresh.ok());
  const uint64_t transfers = paths.sessions->calls(BrickCall::kTransfer);
  EXPECT_EQ(testing::write(*brick, old, 0, testing::pattern(64, 2)).code(), EACCES);
  // Even one that looks like a handle of this session to the transport.
  Handle disguised = fresh->front();
  disguised.session = old.session;
  EXPECT_EQ(testing::write(*brick, disguised, 0, testing::pattern(64, 2)).code(), EACCES);
  EXPECT_EQ(testing::read(*brick, fresh->front(), 0, 64), testing::pattern(64, 1));
  EXPECT_EQ(paths.sessions->calls(BrickCall::kTransfer), transfers);
}

TEST(RedirectedBrick, RegistersMemoryForTheWantedPath) {
  testing::TemporaryDirectory directory;
  std::string why;
  std::shared_ptr<BrickService> service = std::move(*BrickService::open(testing::memory_config(8), &why));
  TcpTestBrick around(testing::memory_config(8));
  const auto make = [&] { return make_embedded_brick(service); };
  const auto brick = make_redirected_brick({make(), around.connect(), make, nullptr, {}}, kSoon);
  ASSERT_TRUE(brick->open(request_for(1), nullptr).ok());
  std::vector<std::byte> memory(4096);
  const auto registered = brick->register_memory(memory);
  ASSERT_TRUE(registered.ok());
  EXPECT_EQ(registered->local_key(), make()->register_memory(memory)->local_key());
}

TEST(RedirectedBrick, OffersToReturnOnceThePathIsHealthy) {
  TwoPaths paths;
  paths.refuse(true);
  const auto brick = paths.connect();
  std::atomic<int> offers = 0;
  brick->set_on_lost([&](Error error) {
    EXPECT_EQ(error.code(), ERESTART);
    ++offers;
  });
  const auto around = brick->open(request_for(1), nullptr);
  ASSERT_TRUE(around.ok());
  std::this_thread::sleep_for(milliseconds(300));
  EXPECT_EQ(offers.load(), 0) << "the path is still closed";
  paths.refuse(false);
  ASSERT_TRUE(eventually([&] { return offers.load() > 0; }));
  EXPECT_TRUE(brick->stat().ok()) << "the session goes on until another is begun";
  auto again = request_for(1);
  again.resume = around->epoch;
  const auto back = brick->open(again, nullptr);
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(back->transport, "tcp");
  EXPECT_EQ(back->epoch, around->epoch);
  EXPECT_EQ(paths.sessions->sessions(), 1u);
}

TEST(RedirectedBrick, APathToAnotherBrickIsNotTheOneThatFailed) {
  TwoPaths paths;
  TcpTestBrick other(testing::memory_config(8));
  paths.refuse(true);
  std::atomic<int> probes = 0;
  const auto brick = make_redirected_brick({paths.sessions->make_brick(),
                                            paths.server.connect(),
                                            [&] {
                                              ++probes;
                                              return other.connect();
                                            },
                                            nullptr,
                                            {}},
                                           kSoon);
  std::atomic<int> offers = 0;
  brick->set_on_lost([&](Error) { ++offers; });
  ASSERT_TRUE(brick->open(request_for(1), nullptr).ok());
  EXPECT_TRUE(eventually([&] { return probes.load() >= 4; }));
  EXPECT_EQ(offers.load(), 0);
}

// It opens and answers control calls, but loses every session: that is a failure too.
TEST(RedirectedBrick, APathThatDoesNotCarryIsLeft) {
  TwoPaths paths;
  PathTimes times = kSoon;
  times.trial = std::chrono::seconds(60);
  const auto brick = paths.connect(times);
  auto request = request_for(1);
  for (int i = 0; i < 2; ++i) {
    const auto session = brick->open(request, nullptr);
    ASSERT_TRUE(session.ok());
    EXPECT_EQ(session->transport, "tcp");
    request.resume = session->epoch;
    paths.sessions->lose();
  }
  const auto session = brick->open(request, nullptr);
  ASSERT_TRUE(session.ok());
  EXPECT_TRUE(is_redirected(session->transport)) << session->transport;
}

TEST(RedirectedBrick, LearnsThePortOfTheWayAround) {
  TwoPaths paths;
  const uint16_t real = paths.server.port();
  const std::vector<HostPort> addresses = {{"127.0.0.9", 1}, {"127.0.0.1", 1}};  // nobody there
  const auto brick = make_brick_with_tcp_around(
      "rdma", addresses, {}, [&] { return paths.sessions->make_brick(); }, kSoon);
  const auto session = brick->open(request_for(1), nullptr);
  ASSERT_TRUE(session.ok());
  EXPECT_EQ(session->tcp_port, real);
  paths.sessions->lose();
  paths.refuse(true);
  auto request = request_for(1);
  request.resume = session->epoch;
  const auto around = brick->open(request, nullptr);
  ASSERT_TRUE(around.ok()) << around.error().what();
  EXPECT_TRUE(is_redirected(around->transport));
}

// --- with the client of a volume above

VolumeOptions options() {
  VolumeOptions options;
  options.open.client = ClientId{7};
  options.open.client_name = "test";
  return options;
}

Status move(VolumeClient& volume, Direction direction, uint64_t address, std::vector<std::byte>& bytes) {
  const Piece piece{address, {{bytes.data(), static_cast<uint32_t>(bytes.size()), 0}}};
  return direction == Direction::kRead ? volume.read({&piece, 1}) : volume.write({&piece, 1}, Stage::kData);
}

// Writes and reads back its own megabytes until told to stop: no operation may fail, no byte be other than written.
void work(VolumeClient& volume, uint64_t worker, const std::atomic<bool>& stop, std::atomic<uint64_t>& operations) {
  constexpr size_t kBytes = 48 * 1024 + 11;
  constexpr uint64_t kPlaces = 40;
  std::vector<unsigned> seeds(kPlaces, 0);
  for (unsigned round = 1; !stop.load(); ++round) {
    const uint64_t place = round % kPlaces;
    const uint64_t address = worker * kBlockBytes + place * (kBytes + 5);
    auto bytes = testing::pattern(kBytes, round * 7 + static_cast<unsigned>(worker));
    ASSERT_TRUE(move(volume, Direction::kWrite, address, bytes).ok());
    seeds[place] = round;
    const uint64_t other = (round * 13) % kPlaces;
    std::vector<std::byte> read(kBytes);
    const uint64_t from = worker * kBlockBytes + other * (kBytes + 5);
    ASSERT_TRUE(move(volume, Direction::kRead, from, read).ok());
    if (seeds[other] != 0) {
      ASSERT_EQ(read, testing::pattern(kBytes, seeds[other] * 7 + static_cast<unsigned>(worker)));
    }
    if (round % 16 == 0) {
      ASSERT_TRUE(volume.commit().ok());
    }
    ++operations;
  }
}

TEST(RedirectedVolume, NothingFailsNorIsLostWhileThePathComesAndGoes) {
  testing::TemporaryDirectory directory;
  TwoPaths paths(durable(directory));
  auto opened = VolumeClient::open(paths.connect(), options(), nullptr);
  ASSERT_TRUE(opened.ok());
  VolumeClient& volume = **opened;
  ASSERT_TRUE(volume.alloc(blocks(0, 3)).ok());
  std::atomic<bool> stop = false;
  std::atomic<uint64_t> operations = 0;
  std::vector<std::thread> workers;
  for (uint64_t i = 0; i < 3; ++i) workers.emplace_back([&, i] { work(volume, i, stop, operations); });
  const auto moves_on = [&] {
    const uint64_t before = operations;
    return eventually([&] { return operations > before + 20; });
  };
  for (int round = 0; round < 4; ++round) {
    SCOPED_TRACE(round);
    ASSERT_TRUE(moves_on());
    EXPECT_EQ(volume.link_state().text, "tcp");
    paths.fail();
    ASSERT_TRUE(moves_on());
    EXPECT_EQ(volume.link_state().kind, LinkState::Kind::kConnected);
    EXPECT_TRUE(is_redirected(volume.link_state().text)) << volume.link_state().text;
    paths.refuse(false);
    ASSERT_TRUE(eventually([&] { return volume.link_state().text == "tcp"; })) << volume.link_state().text;
  }
  stop = true;
  for (std::thread& worker : workers) worker.join();
  EXPECT_TRUE(volume.commit().ok());
  EXPECT_TRUE(volume.close().ok());
}

TEST(RedirectedVolume, AWayAroundThatRestartsIsReplayedToAsAnyOther) {
  testing::TemporaryDirectory directory;
  TwoPaths paths(durable(directory));
  auto opened = VolumeClient::open(paths.connect(), options(), nullptr);
  ASSERT_TRUE(opened.ok());
  VolumeClient& volume = **opened;
  ASSERT_TRUE(volume.alloc(blocks(0, 1)).ok());
  ASSERT_TRUE(volume.commit().ok());
  auto bytes = testing::pattern(100'000, 3);
  ASSERT_TRUE(move(volume, Direction::kWrite, 0, bytes).ok());
  paths.fail();
  std::vector<std::byte> read(bytes.size());
  ASSERT_TRUE(move(volume, Direction::kRead, 0, read).ok());
  EXPECT_TRUE(is_redirected(volume.link_state().text));
  paths.server.restart();
  ASSERT_TRUE(move(volume, Direction::kRead, 0, read).ok());
  EXPECT_EQ(read, bytes);
  paths.refuse(false);
  EXPECT_TRUE(eventually([&] { return volume.link_state().text == "tcp"; }));
  ASSERT_TRUE(move(volume, Direction::kRead, 0, read).ok());
  EXPECT_EQ(read, bytes);
  EXPECT_TRUE(volume.commit().ok());
  EXPECT_TRUE(volume.close().ok());
}

}  // namespace
}  // namespace brickfs
