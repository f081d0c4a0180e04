// SPDX-License-Identifier: Apache-2.0
// A store whose disk hangs, and those who ask for a volume meanwhile and go away: nothing is done for them any more,
// and they keep nothing of the brick.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "server/service/brick_service.h"
#include "server/store/file_device.h"
#include "server/tcp/listener.h"
#include "tests/support/brick_contract.h"
#include "tests/support/raw_connection.h"
#include "tests/support/tcp_test_brick.h"
#include "transport/base/mutex.h"

namespace brickfs::testing {
namespace {

using namespace std::chrono_literals;

constexpr uint64_t kHungDiskBlocks = 8;
constexpr uint64_t kHomeBlocks = 4;
constexpr CommitRange kHomeStart{0, 4096, false};
const Secret kHomeAdministrators{"of the administrators"};

// What holds syncs up.
class Hanging {
 public:
  void begin() {
    MutexLock lock(mutex_);
    hangs_ = true;
  }
  void end() {
    MutexLock lock(mutex_);
    hangs_ = false;
    changed_.notify_all();
  }
  void pass() {
    MutexLock lock(mutex_);
    ++held_up_;
    while (hangs_) changed_.wait(lock);
    --held_up_;
  }
  bool holds_up() {
    MutexLock lock(mutex_);
    return held_up_ > 0;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  bool hangs_ ABSL_GUARDED_BY(mutex_) = false;
  int held_up_ ABSL_GUARDED_BY(mutex_) = 0;
};

class HangingDevice final : public StoreDevice {
 public:
  HangingDevice(std::unique_ptr<StoreDevice> device, Hanging& hanging)
      : device_(std::move(device)), hanging_(hanging) {}
  Result<uint64_t> size_bytes() const override { return device_->size_bytes(); }
  Status read(uint64_t offset, std::span<std::byte> into) const override { return device_->read(offset, into); }
  Status write(uint64_t offset, std::span<const std::byte> from) override { return device_->write(offset, from); }
  Status reserve(uint64_t offset, uint64_t length_bytes) override { return device_->reserve(offset, length_bytes); }
  Status punch(uint64_t offset, uint64_t length_bytes) override { return device_->punch(offset, length_bytes); }
  Status grow(uint64_t size_bytes) override { return device_->grow(size_bytes); }
  Status sync() override {
    hanging_.pass();
    return device_->sync();
  }
  void forget_cache() override { device_->forget_cache(); }
  uint64_t room_bytes() const override { return device_->room_bytes(); }

 private:
  const std::unique_ptr<StoreDevice> device_;
  Hanging& hanging_;
};

class GonePeer : public ::testing::Test {
 protected:
  using Channel = std::unique_ptr<tcp::TcpChannel>;

  void SetUp() override {
    std::string why;
    auto file = FileDevice::open(directory_.path("store"), true, &why);
    ASSERT_TRUE(file.ok()) << why;
    BrickConfig config = memory_config(kHungDiskBlocks);
    config.store_path = "disk";
    config.store_bytes = kHungDiskBlocks * kBlockBytes;
    config.volumes = {{"home", kHomeBlocks * kBlockBytes}};
    auto service = BrickService::open(config, std::make_unique<HangingDevice>(*std::move(file), disk_), &why);
    ASSERT_TRUE(service.ok()) << why;
    service_ = *std::move(service);
    auto listener = TcpListener::open(*service_, {SourceKind::kTcp, "127.0.0.1", 0}, {});
    ASSERT_TRUE(listener.ok());
    listener_ = *std::move(listener);
    listener_->use_admin_secrets({kHomeAdministrators});
  }
  ~GonePeer() override { disk_.end(); }

  static Deadline soon() { return std::chrono::steady_clock::now() + 60s; }
  static OpenRequest of(uint64_t client, OpenMode mode = OpenMode::kExclusive, bool steal = false, Epoch resume = {}) {
    OpenRequest request = request_for(client, mode, steal);
    request.volume = "home";
    request.resume = resume;
    return request;
  }
  static OpenRequest resuming(uint64_t client, Epoch epoch) { return of(client, OpenMode::kExclusive, false, epoch); }
  static AdminRequest removal() {
    return {.action = AdminAction::kRemove, .volume = "home", .size_blocks = {}, .force = true};
  }
  static AdminRequest growth() {
    return {.action = AdminAction::kResize, .volume = "home", .size_blocks = kHomeBlocks + 1, .force = false};
  }

  RawPeer peer() const { return {{"127.0.0.1", listener_->port()}, {}}; }
  VolumeStatus home() {
    for (const VolumeStatus& volume : service_->administer({}).volumes) {
      if (volume.name == "home") return volume;
    }
    ADD_FAILURE() << "the volume is gone";
    return {};
  }
  // No session on `home` that has not begun to end.
  bool nobody_has_it() {
    const AdminRequest clients{.action = AdminAction::kClients, .volume = "home", .size_blocks = {}, .force = false};
    return service_->administer(clients).clients.empty();
  }
  bool has_connections(size_t count) {
    return eventually([&] { return listener_->admitted() == count; });
  }

  // A first call whose answer is not waited for. Its sender goes with the channel.
  template <typename Call>
  Channel say(wire::Kind kind, const Secret& secret, std::string_view purpose, Call call) {
    auto greeted = tcp::greet(peer().address, soon());
    EXPECT_EQ(greeted.code(), 0);
    if (!greeted.ok()) return nullptr;
    call.proof = wire::prove(secret, purpose, greeted->nonces, call);
    send(*greeted->channel, kind, bytes_of(call));
    return std::move(greeted->channel);
  }
  Channel say(const OpenRequest& request) {
    return say(wire::Kind::kOpen, {}, wire::kOpenPurpose, wire::to_call(request));
  }
  Channel say(const AdminRequest& request) {
    return say(wire::Kind::kAdminister, kHomeAdministrators, wire::kAdministerPurpose, to_call(request));
  }
  static void send(tcp::TcpChannel& channel, wire::Kind kind, std::span<const std::byte> body) {
    wire::CallHeader header;
    header.kind = static_cast<uint16_t>(kind);
    header.id = 1;
    EXPECT_TRUE(channel.send(header, body).ok());
  }
  Channel attach_for_calls(const wire::Token& token) {
    auto greeted = tcp::greet(peer().address, soon());
    EXPECT_TRUE(greeted.ok());
    EXPECT_TRUE(attach(*greeted->channel, greeted->nonces, {}, token, wire::Role::kCalls, soon()).ok());
    return std::move(greeted->channel);
  }
  static int call(tcp::TcpChannel& channel, const calls::Request& request) {
    const auto reply = exchange(channel, calls::kind_of(request), 2, calls::encode(request), soon());
    return reply.ok() ? reply->status : reply.code();
  }

  // Client 1 opens `home`, has a COMMIT that hangs, and goes. `is_noticed`: by the connection that opened, which has no
  // call under way. The epoch that it had.
  Epoch commit_hangs(bool is_noticed) {
    auto session = raw_open(peer(), of(1), soon());
    EXPECT_EQ(session.code(), 0);
    if (!session.ok()) return {};
    EXPECT_EQ(call(*session->channel, calls::Alloc{blocks(0)}), 0);
    const Channel apart = is_noticed ? attach_for_calls(session->token) : nullptr;
    disk_.begin();
    send(is_noticed ? *apart : *session->channel, wire::Kind::kCommit, calls::encode(calls::Commit{{kHomeStart}}));
    EXPECT_TRUE(eventually([&] { return disk_.holds_up(); }));
    return home().epoch;
  }
  // Client 1 comes back to what it had, alone, and stays.
  void expect_back(Epoch epoch) {
    const auto back = raw_open(peer(), resuming(1, epoch), soon());
    ASSERT_EQ(back.code(), 0);
    EXPECT_EQ(home().epoch, epoch);
    EXPECT_TRUE(has_connections(1)) << listener_->admitted();
    EXPECT_EQ(call(*back->channel, calls::Stat{}), 0);
  }

  const TemporaryDirectory directory_;
  Hanging disk_;
  std::unique_ptr<BrickService> service_;
  std::unique_ptr<TcpListener> listener_;
};

TEST_F(GonePeer, WhoOpensAgainAndAgainKeepsNoConnections) {
  const Epoch epoch = commit_hangs(true);
  ASSERT_TRUE(eventually([&] { return nobody_has_it(); }));
  ASSERT_TRUE(has_connections(2)) << "of the COMMIT, and of who waits for its end";
  std::vector<Channel> asking;
  for (int i = 0; i < 3; ++i) asking.push_back(say(resuming(1, epoch)));
  asking.push_back(say(of(2)));
  ASSERT_TRUE(has_connections(2 + asking.size()));
  asking.clear();
  EXPECT_TRUE(has_connections(2)) << listener_->admitted();
  EXPECT_EQ(home().epoch, epoch);
  disk_.end();
  expect_back(epoch);
}

// The thief has to see to the end of the session that he has cut off, also when he has gone; he does not get the
// volume.
TEST_F(GonePeer, AThiefWhoGoesDoesNotGetTheVolume) {
  const Epoch epoch = commit_hangs(false);
  Channel thief = say(of(2, OpenMode::kExclusive, true));
  ASSERT_TRUE(eventually([&] { return nobody_has_it(); }));
  std::vector<Channel> asking;
  asking.push_back(say(resuming(1, epoch)));
  asking.push_back(say(of(3, OpenMode::kObserve)));
  asking.push_back(say(of(4, OpenMode::kFollow)));
  ASSERT_TRUE(has_connections(2 + asking.size()));
  thief.reset();
  asking.clear();
  EXPECT_TRUE(has_connections(2)) << listener_->admitted();
  disk_.end();
  expect_back(epoch);
}

TEST_F(GonePeer, AnAdministratorWhoGoesChangesNothing) {
  const Epoch epoch = commit_hangs(false);
  Channel first = say(removal());
  ASSERT_TRUE(eventually([&] { return nobody_has_it(); }));
  std::vector<Channel> asking;
  asking.push_back(say(growth()));
  asking.push_back(say(removal()));
  asking.push_back(say(of(2)));
  ASSERT_TRUE(has_connections(2 + asking.size()));
  first.reset();
  asking.clear();
  EXPECT_TRUE(has_connections(2)) << listener_->admitted();
  disk_.end();
  expect_back(epoch);
  EXPECT_EQ(home().size_blocks, kHomeBlocks);
}

TEST_F(GonePeer, WhoStaysIsAnsweredWhenTheDiskGoesOn) {
  const Epoch epoch = commit_hangs(false);
  const auto open = [this](const OpenRequest& request) { return raw_open(peer(), request, soon()); };
  auto back = std::async(std::launch::async, open, resuming(1, epoch));
  ASSERT_TRUE(eventually([&] { return nobody_has_it(); }));
  auto observer = std::async(std::launch::async, open, of(3, OpenMode::kObserve));
  const Channel administrator = say(growth());
  EXPECT_EQ(observer.wait_for(1500ms), std::future_status::timeout);
  EXPECT_EQ(back.wait_for(0s), std::future_status::timeout);
  disk_.end();
  EXPECT_EQ(observer.get().code(), 0);
  const auto session = back.get();
  ASSERT_EQ(session.code(), 0);
  EXPECT_EQ(call(*session->channel, calls::Stat{}), 0);
  EXPECT_EQ(home().epoch, epoch);
  EXPECT_TRUE(eventually([&] { return home().size_blocks == kHomeBlocks + 1; }));
}

// A taker who goes has fenced a session that was closing, and may have taken it off the volume before it says so.
TEST_F(GonePeer, ALeaseIsGivenUpAlsoIfATakerCameAndWent) {
  for (int round = 0; round < 20; ++round) {
    auto opened = service_->open_session(
        of(1), [] {}, nullptr);
    ASSERT_TRUE(opened.ok());
    ServerSession& session = **opened;
    ASSERT_EQ(session.alloc(blocks(0)).code(), round == 0 ? 0 : EEXIST);
    disk_.begin();
    auto commit = std::async(std::launch::async, [&] { return session.commit({&kHomeStart, 1}).code(); });
    ASSERT_TRUE(eventually([&] { return disk_.holds_up(); }));
    auto close = std::async(std::launch::async, [&] { return session.close().code(); });
    ASSERT_TRUE(eventually([&] { return session.ended(); }));
    std::atomic<bool> has_gone = false;
    auto taker = std::async(std::launch::async, [&] {
      return service_->open_session(of(2), PeerEnd{[] {}, nullptr}, nullptr, [&] { return has_gone.load(); }).code();
    });
    std::this_thread::sleep_for(5ms);  // until it waits for the session's end
    has_gone = true;
    disk_.end();
    EXPECT_EQ(taker.get(), ECANCELED);
    EXPECT_EQ(close.get(), 0);
    commit.get();
    EXPECT_FALSE(home().holder.has_value()) << "round " << round;
  }
}

// It replaces a session that cannot end: somebody sees to that already, and others need not wait with him.
TEST_F(GonePeer, AFollowerWhoGoesDoesNotWaitForItsFormerSession) {
  const auto holder = service_->open_session(
      of(1), [] {}, nullptr);
  ASSERT_TRUE(holder.ok() && (*holder)->alloc(blocks(0)).ok());
  const auto follow = [this](const BrickService::Abandoned& abandoned) {
    return service_->open_session(of(2, OpenMode::kFollow), PeerEnd{[] {}, nullptr}, nullptr, abandoned).code();
  };
  const auto former = service_->open_session(
      of(2, OpenMode::kFollow), [] {}, nullptr);
  ASSERT_TRUE(former.ok());
  const auto handles = (*former)->map(blocks(0), Access::kRead);
  ASSERT_TRUE(handles.ok());
  auto pin = (*former)->pin(handles->front().remote_key, handles->front().remote_address, 1, Access::kRead);
  ASSERT_TRUE(pin.ok());
  auto stays = std::async(std::launch::async, follow, [] { return false; });
  ASSERT_TRUE(eventually([&] { return (*former)->ended(); }));
  std::atomic<bool> has_gone = false;
  auto goes = std::async(std::launch::async, follow, [&] { return has_gone.load(); });
  std::this_thread::sleep_for(10ms);  // until it waits
  has_gone = true;
  EXPECT_EQ(goes.wait_for(60s), std::future_status::ready);
  EXPECT_EQ(stays.wait_for(0s), std::future_status::timeout);
  *pin = Pin();
  EXPECT_EQ(stays.get(), 0);
}

}  // namespace
}  // namespace brickfs::testing
