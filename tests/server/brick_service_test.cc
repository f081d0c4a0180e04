// SPDX-License-Identifier: Apache-2.0
// What listeners see of a brick and clients do not: pins, silence, stopping, configuration.
#include "server/service/brick_service.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "tests/support/brick_factory.h"

namespace brickfs {
namespace {

constexpr BlockRange kFirst{BlockAddress{0}, 1};

class BrickServiceTest : public ::testing::Test {
 protected:
  void start() {
    config_.memory_bytes = 4 * kBlockBytes;
    auto service = BrickService::open(config_, &why_);
    ASSERT_TRUE(service.ok()) << why_;
    service_ = *std::move(service);
  }
  SessionPtr open(
      uint64_t client, bool steal = false, std::function<void()> cut_off = [] {}) {
    OpenRequest request;
    request.client = ClientId{client};
    request.client_name = "client " + std::to_string(client);
    request.steal = steal;
    auto session = service_->open_session(request, std::move(cut_off), nullptr);
    EXPECT_EQ(session.code(), 0);
    return session.ok() ? *std::move(session) : nullptr;
  }
  static Result<Pin> pin(ServerSession& session, const Handle& handle, Access access = Access::kReadWrite) {
    return session.pin(handle.remote_key, handle.remote_address, 4096, access);
  }

  testing::TemporaryDirectory directory_;
  BrickConfig config_;
  std::string why_;
  std::unique_ptr<BrickService> service_;
};

TEST_F(BrickServiceTest, UnmapWaitsForPins) {
  start();
  const auto session = open(1);
  ASSERT_TRUE(session->alloc(kFirst).ok());
  const Handle handle = session->map(kFirst, Access::kReadWrite)->front();
  auto pinned = pin(*session, handle);
  ASSERT_TRUE(pinned.ok());
  std::atomic<bool> unmapped = false;
  std::thread thread([&] {
    EXPECT_TRUE(session->unmap(kFirst).ok());
    unmapped = true;
  });
  while (pin(*session, handle).ok()) std::this_thread::yield();  // revoked at once
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(unmapped);
  std::memset(pinned->bytes().data(), 1, 4096);
  *pinned = Pin();
  thread.join();
  EXPECT_TRUE(unmapped);
}

TEST_F(BrickServiceTest, APinThatStaysGetsItsClientCutOff) {
  start();
  Pin pinned;
  std::atomic<int> cuts = 0;
  const auto session = open(1, false, [&] {
    cuts.fetch_add(1);
    pinned = Pin();
  });
  ASSERT_TRUE(session->alloc(kFirst).ok());
  const Handle handle = session->map(kFirst, Access::kReadWrite)->front();
  pinned = *pin(*session, handle);
  EXPECT_TRUE(session->unmap(kFirst).ok());
  EXPECT_EQ(cuts.load(), 1);
}

TEST_F(BrickServiceTest, ATakerCutsOffFirstAndThenWaitsForPins) {
  start();
  Pin pinned;
  std::atomic<int> cuts = 0;
  auto victim = open(1, false, [&] { cuts.fetch_add(1); });
  ASSERT_TRUE(victim->alloc(kFirst).ok());
  const Handle handle = victim->map(kFirst, Access::kReadWrite)->front();
  pinned = *pin(*victim, handle);
  std::atomic<bool> taken = false;
  std::thread taker([&] {
    const auto thief = open(2, true);
    taken = true;
  });
  while (cuts.load() == 0) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(taken);
  EXPECT_EQ(victim->alloc({block_after(BlockAddress{0}, 1), 1}).code(), ESTALE);
  EXPECT_EQ(pin(*victim, handle).code(), ESTALE);
  victim->disconnect();  // as its listener does now; does not wait
  pinned = Pin();
  taker.join();
  EXPECT_TRUE(taken);
  EXPECT_EQ(cuts.load(), 1);
}

// Two connections of one that is lost end it, and one of them is not done yet.
TEST_F(BrickServiceTest, WhoComesNextWaitsUntilALostSessionHasEnded) {
  config_.store_path = directory_.path("store");
  config_.store_bytes = 4 * kBlockBytes;
  start();
  auto lost = open(1);
  ASSERT_TRUE(lost->alloc(kFirst).ok());
  Pin pinned = *pin(*lost, lost->map(kFirst, Access::kReadWrite)->front());
  std::thread ends([&] { lost->disconnect(); });
  while (!lost->ended()) std::this_thread::yield();
  lost->disconnect();
  std::atomic<bool> opened = false;
  std::thread next([&] {
    const auto session = open(2);
    opened = true;
    EXPECT_EQ(session->description().suspect_blocks, 1u);
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(opened);
  pinned = Pin();
  ends.join();
  next.join();
}

TEST_F(BrickServiceTest, APinStaysWithinItsHandleAndItsAccess) {
  start();
  const auto session = open(1);
  ASSERT_TRUE(session->alloc({BlockAddress{0}, 2}).ok());
  const Handle writing = session->map(kFirst, Access::kReadWrite)->front();
  const Handle reading = session->map({block_after(BlockAddress{0}), 1}, Access::kRead)->front();
  const auto code = [&](const Handle& handle, uint64_t address, uint64_t length, Access access) {
    return session->pin(handle.remote_key, address, length, access).code();
  };
  EXPECT_EQ(code(writing, writing.remote_address, kBlockBytes, Access::kReadWrite), 0);
  EXPECT_EQ(code(writing, writing.remote_address + 1, kBlockBytes, Access::kRead), EACCES);
  EXPECT_EQ(code(writing, writing.remote_address + kBlockBytes, 1, Access::kRead), EACCES);
  EXPECT_EQ(code(writing, writing.remote_address - 1, 1, Access::kRead), EACCES);
  EXPECT_EQ(code(writing, writing.remote_address, UINT64_MAX, Access::kRead), EACCES);
  EXPECT_EQ(code(reading, reading.remote_address, 4096, Access::kRead), 0);
  EXPECT_EQ(code(reading, reading.remote_address, 4096, Access::kReadWrite), EACCES);
  EXPECT_EQ(session->pin(writing.remote_key ^ 1, writing.remote_address, 1, Access::kRead).code(), EACCES);
}

TEST_F(BrickServiceTest, WhoIsSilentIsCutOffAndWhoIsHeardIsNot) {
  start();
  std::atomic<int> cuts = 0;
  auto silent = open(1, false, [&] { cuts.fetch_add(1); });
  const auto opened = std::chrono::steady_clock::now();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  silent->touch();
  service_->expire_silent(opened + limits::kLease + std::chrono::milliseconds(10));
  EXPECT_EQ(cuts.load(), 0) << "it was heard since it was opened";
  service_->expire_silent(std::chrono::steady_clock::now() + limits::kLease + std::chrono::milliseconds(10));
  EXPECT_EQ(cuts.load(), 1);
  EXPECT_EQ(silent->stat().code(), ESTALE);
  EXPECT_NE(open(2), nullptr);
}

TEST_F(BrickServiceTest, AfterStopNobodyGetsIn) {
  start();
  std::atomic<int> cuts = 0;
  auto session = open(1, false, [&] { cuts.fetch_add(1); });
  EXPECT_TRUE(service_->stop().ok());
  EXPECT_EQ(cuts.load(), 1);
  EXPECT_EQ(session->stat().code(), ESTALE);
  OpenRequest request;
  request.client = ClientId{2};
  EXPECT_EQ(service_
                ->open_session(
                    request, [] {}, nullptr)
                .code(),
            ECONNREFUSED);
  EXPECT_TRUE(service_->stop().ok());
}

TEST_F(BrickServiceTest, AStopStoresWhatIsOnlyInMemory) {
  config_.store_path = directory_.path("store");
  config_.store_bytes = 8 * kBlockBytes;
  start();
  {
    auto session = open(1);
    ASSERT_TRUE(session->alloc(kFirst).ok());
    const Handle handle = session->map(kFirst, Access::kReadWrite)->front();
    std::memset(pin(*session, handle)->bytes().data(), 7, 4096);
    EXPECT_TRUE(service_->stop().ok());
  }
  service_.reset();
  start();
  auto session = open(1);
  const Handle handle = session->map(kFirst, Access::kRead)->front();
  EXPECT_EQ(pin(*session, handle, Access::kRead)->bytes()[4095], std::byte{7});
}

TEST_F(BrickServiceTest, VolumesAndQuotasAreKeptAndChanged) {
  config_.store_path = directory_.path("store");
  config_.store_bytes = 8 * kBlockBytes;
  config_.volumes = {{"small", 2 * kBlockBytes}};
  start();
  OpenRequest request;
  request.volume = "small";
  request.client = ClientId{1};
  const auto capacity = [&] {
    return (*service_->open_session(
                request, [] {}, nullptr))
        ->description()
        .capacity_blocks;
  };
  EXPECT_EQ(capacity(), 2u);
  service_.reset();
  config_.volumes.clear();
  start();
  EXPECT_EQ(capacity(), 2u);
  service_.reset();
  config_.volumes = {{"small", 3 * kBlockBytes}, {"default", 1 * kBlockBytes}};
  start();
  EXPECT_EQ(capacity(), 3u);
  request.volume = "default";
  EXPECT_EQ(capacity(), 1u);
}

class GraceTest : public BrickServiceTest {
 protected:
  GraceTest() {
    config_.store_path = directory_.path("store");
    config_.store_bytes = 8 * kBlockBytes;
    config_.grace = std::chrono::seconds(60);
    start();
  }
  void restart() {
    service_.reset();
    start();
  }
  Result<SessionPtr> ask(OpenRequest request) {
    if (request.client == ClientId{}) request.client = ClientId{2};
    return service_->open_session(
        request, [] {}, &holder_);
  }
  static constexpr ClientId kHolder{1};
  Holder holder_;
};

TEST_F(GraceTest, AVolumeIsKeptForWhoHeldIt) {
  auto held = open(1);
  const Epoch epoch = held->description().epoch;
  held->disconnect();
  held.reset();
  restart();
  EXPECT_EQ(ask({}).code(), EBUSY);
  EXPECT_EQ(holder_.name, "client 1");
  EXPECT_EQ(holder_.client, kHolder);
  EXPECT_GT(holder_.kept_for, std::chrono::seconds(50));
  EXPECT_LE(holder_.kept_for, config_.grace);
  EXPECT_EQ(ask({.client_name = "other", .mode = OpenMode::kReadOnly}).code(), EBUSY)
      << "a reader would end the lease, too";
  EXPECT_EQ(ask({.client_name = "other", .ended = ClientId{3}}).code(), EBUSY) << "another's end is of no interest";
  {
    const auto observer = ask({.client_name = "other", .mode = OpenMode::kObserve});
    ASSERT_TRUE(observer.ok());
    const auto stat = (*observer)->stat();
    ASSERT_TRUE(stat.ok() && stat->holder);
    EXPECT_GT(stat->holder->kept_for.count(), 0);
  }
  restart();
  auto back = ask({.client = kHolder, .client_name = "client 1", .resume = epoch});
  ASSERT_TRUE(back.ok()) << "he himself gets in, also when it has restarted again";
  (*back)->disconnect();
  EXPECT_TRUE(ask({}).ok()) << "who has come back and gone is away as any other";
}

TEST_F(GraceTest, StealAndTheEndOfTheHolderLetOthersIn) {
  open(1)->disconnect();
  restart();
  EXPECT_TRUE(ask({.client_name = "other", .ended = kHolder}).ok());
  restart();
  EXPECT_EQ(ask({.client = ClientId{3}, .client_name = "other"}).code(), EBUSY);
  EXPECT_TRUE(ask({.client = ClientId{3}, .client_name = "other", .steal = true}).ok());
}

TEST_F(GraceTest, NothingIsKeptThatWasClosedOrOnlyRead) {
  ASSERT_TRUE(open(1)->close().ok());
  restart();
  EXPECT_TRUE(ask({.client_name = "other", .mode = OpenMode::kReadOnly}).ok());
  restart();
  EXPECT_TRUE(ask({}).ok());
}

TEST_F(GraceTest, ItEnds) {
  open(1)->disconnect();
  config_.grace = std::chrono::milliseconds(300);
  restart();
  EXPECT_EQ(ask({}).code(), EBUSY);
  std::this_thread::sleep_for(config_.grace);
  EXPECT_TRUE(ask({}).ok());
}

TEST_F(BrickServiceTest, RefusesConfigurationsThatCannotBe) {
  EXPECT_EQ(BrickService::open(config_, &why_).code(), EINVAL);
  EXPECT_FALSE(why_.empty());
  config_.memory_bytes = kBlockBytes;
  for (const std::string& name : std::vector<std::string>{"", "a/b", "a b", "x\n", std::string(64, 'x')}) {
    config_.volumes = {{name, {}}};
    why_.clear();
    EXPECT_EQ(BrickService::open(config_, &why_).code(), EINVAL) << name;
    EXPECT_FALSE(why_.empty());
  }
  config_.volumes = {{std::string(63, 'x'), {}}};
  EXPECT_TRUE(BrickService::open(config_, &why_).ok());
}

}  // namespace
}  // namespace brickfs
