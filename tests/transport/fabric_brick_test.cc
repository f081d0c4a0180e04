// SPDX-License-Identifier: Apache-2.0
// The client over libfabric (`tcp;ofi_rxm` on loopback): what a provider refuses, and that nothing lands late.
#include "transport/fabric/fabric_brick.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "server/fabric/listener.h"
#include "tests/support/brick_contract.h"
#include "tests/support/fabric_test_brick.h"
#include "tests/support/tcp_test_brick.h"
#include "transport/fabric/connector.h"
#include "transport/fabric/queue_pair.h"
#include "transport/remote/call_channel.h"

namespace brickfs::testing {
namespace {

constexpr const char* kProvider = "tcp;ofi_rxm";

class Fabric : public ::testing::Test {
 protected:
  void start(std::vector<VolumeSpec> volumes = {}, std::vector<std::string> addresses = {"127.0.0.1"}) {
    BrickConfig config = memory_config(8);
    config.volumes = std::move(volumes);
    brick_ = std::make_unique<FabricTestBrick>(std::move(config), kProvider, std::move(addresses));
  }
  std::unique_ptr<Brick> open(const OpenRequest& request) {
    auto client = brick_->connect();
    EXPECT_EQ(client->open(request, nullptr).code(), 0);
    return client;
  }
  HostPort address() const { return {"127.0.0.1", brick_->port()}; }

  std::unique_ptr<FabricTestBrick> brick_;
};

// A client without scruples: posts what it likes.
class RawFabricClient {
 public:
  RawFabricClient(const HostPort& address, const OpenRequest& request) : address_(address) {
    auto greeted = connector_.greet(address, soon(), TlsMode::kOff, {});
    EXPECT_EQ(greeted.code(), 0);
    EXPECT_EQ(open_session(*greeted->channel, greeted->nonces, {}, request, nullptr, soon()).code(), 0);
    calls_ = std::make_unique<CallChannel>(std::move(greeted->channel));
  }

  Result<calls::Answer> call(const calls::Request& request) {
    const auto reply = calls_->call(++id_, request, std::chrono::seconds(10));
    if (!reply.ok()) return reply.error();
    if (reply->status != 0) return Error(reply->status, "refused");
    return calls::decode_answer(request, reply->body);
  }
  std::unique_ptr<onesided::QueuePair> add_endpoint() {
    auto made = connector_.connect(
        {address_, calls_->channel(), [this](const calls::Request& request) { return call(request); }, [](uint32_t) {}},
        soon());
    EXPECT_EQ(made.code(), 0);
    return std::move(made->pair);
  }
  void alloc(uint64_t block) { EXPECT_TRUE(call(calls::Alloc{blocks(block)}).ok()); }
  void unmap(uint64_t block) { EXPECT_TRUE(call(calls::Unmap{blocks(block)}).ok()); }
  // As the brick has answered: the mapping by which its endpoints are used.
  void map(uint64_t block, onesided::Mapping& mapping) {
    const auto answer = call(calls::Map{blocks(block), Access::kReadWrite});
    ASSERT_TRUE(answer.ok());
    const auto& mapped = std::get<calls::Mapped>(*answer);
    ASSERT_EQ(mapped.keys.size(), 1u);
    mapping.handle = mapped.handles.front();
    for (size_t pair = 0; pair < mapping.keys.size(); ++pair) mapping.keys[pair].store(mapped.keys.front()[pair]);
  }

 private:
  static Deadline soon() { return std::chrono::steady_clock::now() + std::chrono::seconds(60); }

  const HostPort address_;
  onesided::LocalMemory memory_;
  fabric::Connector connector_{memory_, kProvider};
  std::unique_ptr<CallChannel> calls_;
  uint64_t id_ = 0;
};

// A write, from its posting to its end.
class RawWrite {
 public:
  RawWrite(onesided::QueuePair& pair, onesided::Mapping& mapping, uint64_t offset, size_t bytes, std::byte value)
      : pair_(pair), bytes_(bytes, value), slice_{bytes_.data(), static_cast<uint32_t>(bytes), 0} {
    transfer_ = {Direction::kWrite, {}, offset, {&slice_, 1}};
    part_ = {nullptr, &transfer_, &mapping, 0, static_cast<uint32_t>(bytes), onesided::Part::Way::kDirect, 0};
  }
  // Until it is posted, or cannot be.
  void post() {
    EXPECT_TRUE(eventually([&] {
      const auto posted = pair_.post({&part_, 1});
      posted_ = posted.ok() && *posted == 1;
      if (!posted_) pair_.poll(done_);
      return posted_ || !posted.ok();
    }));
  }
  // 0, or EACCES when the endpoint died of it.
  int end() {
    if (posted_) {
      EXPECT_TRUE(eventually([&] {
        pair_.poll(done_);
        return is_done() || pair_.failed();
      }));
    }
    if (pair_.failed()) static_cast<void>(pair_.drain(done_));
    return is_done() ? 0 : EACCES;
  }
  int write() {
    post();
    return end();
  }

 private:
  // Others' completions may come here, too.
  bool is_done() const {
    return std::ranges::any_of(done_, [this](const onesided::Part& part) { return part.transfer == &transfer_; });
  }

  onesided::QueuePair& pair_;
  std::vector<std::byte> bytes_;
  LocalSlice slice_;
  Transfer transfer_;
  onesided::Part part_;
  onesided::Parts done_;
  bool posted_ = false;
};

TEST_F(Fabric, StatNamesTheProvider) {
  start();
  auto client = open(request_for(1));
  const auto stat = client->stat();
  ASSERT_TRUE(stat.ok());
  EXPECT_EQ(stat->transport.rfind("fabric (", 0), 0u) << stat->transport;
  EXPECT_NE(stat->transport.find(kProvider), std::string::npos) << stat->transport;
}

TEST_F(Fabric, AProviderThatIsNotThereIsRefusedAtTheStart) {
  std::string why;
  auto service = BrickService::open(memory_config(2), &why);
  ASSERT_TRUE(service.ok()) << why;
  const auto listener =
      FabricListener::open(**service, {{SourceKind::kFabric, "127.0.0.1", 0, "no_such_provider"}}, {}, &why);
  EXPECT_EQ(listener.code(), EPROTONOSUPPORT);
  EXPECT_NE(why.find("no_such_provider"), std::string::npos) << why;
  EXPECT_EQ(why.find('\n'), std::string::npos) << why;
}

TEST_F(Fabric, AClientThatWantsAnotherProviderIsToldSo) {
  start();
  const auto client = make_fabric_brick({address()}, "shm", {});
  EXPECT_EQ(client->open(request_for(1), nullptr).code(), EPROTONOSUPPORT);
}

TEST_F(Fabric, NobodyListensIsECONNREFUSED) {
  start();
  const HostPort nobody = address();
  brick_.reset();
  EXPECT_EQ(make_fabric_brick({nobody}, "", {})->open(request_for(1), nullptr).code(), ECONNREFUSED);
}

TEST_F(Fabric, BothAddressesCarry) {
  start({}, {"127.0.0.1", "127.0.0.2"});
  auto client = open(request_for(1));
  EXPECT_TRUE(eventually([&] { return client->stat()->transport.find("; ") != std::string::npos; }));
  ASSERT_TRUE(client->alloc(blocks(0)).ok());
  const Handle handle = client->map(blocks(0), Access::kReadWrite)->front();
  for (unsigned seed = 0; seed < 8; ++seed) {
    ASSERT_TRUE(write(*client, handle, seed * kMiB / 8, pattern(kMiB / 8, seed)).ok());
    EXPECT_EQ(read(*client, handle, seed * kMiB / 8, kMiB / 8), pattern(kMiB / 8, seed));
  }
}

TEST_F(Fabric, AKeyIsRefusedAfterUnmap) {
  start();
  RawFabricClient client(address(), request_for(1));
  client.alloc(0);
  auto pair = client.add_endpoint();
  onesided::Mapping old;
  client.map(0, old);
  EXPECT_EQ(RawWrite(*pair, old, 0, 64, std::byte{1}).write(), 0);
  EXPECT_EQ(RawWrite(*pair, old, kBlockBytes - 64, 64, std::byte{2}).write(), 0);
  client.unmap(0);
  EXPECT_EQ(RawWrite(*pair, old, 0, 64, std::byte{3}).write(), EACCES);
  pair.reset();
  auto heir = open(request_for(2, OpenMode::kExclusive, true));
  const auto handle = heir->map(blocks(0), Access::kRead);
  ASSERT_TRUE(handle.ok());
  EXPECT_EQ(read(*heir, handle->front(), 0, 64), std::vector(64, std::byte{1}));
  EXPECT_EQ(read(*heir, handle->front(), kBlockBytes - 64, 64), std::vector(64, std::byte{2}));
}

TEST_F(Fabric, WhatIsBeyondAHandleIsRefused) {
  start();
  RawFabricClient client(address(), request_for(1));
  client.alloc(0);
  auto pair = client.add_endpoint();
  onesided::Mapping mapping;
  client.map(0, mapping);
  EXPECT_EQ(RawWrite(*pair, mapping, kBlockBytes - 32, 64, std::byte{3}).write(), EACCES);
}

TEST_F(Fabric, AnotherClientsKeyIsRefused) {
  start({{"other", std::nullopt}});
  RawFabricClient owner(address(), request_for(1));
  owner.alloc(0);
  auto pair = owner.add_endpoint();
  onesided::Mapping mapping;
  owner.map(0, mapping);
  OpenRequest elsewhere = request_for(2);
  elsewhere.volume = "other";
  RawFabricClient thief(address(), elsewhere);
  auto his = thief.add_endpoint();
  EXPECT_EQ(RawWrite(*his, mapping, 0, 64, std::byte{7}).write(), EACCES);
  his.reset();
  EXPECT_EQ(RawWrite(*pair, mapping, 64, 64, std::byte{2}).write(), 0);  // the owner's is as it was
}

// What it has begun to write, and what it begins afterwards.
TEST_F(Fabric, NothingOfAFencedClientLands) {
  start();
  RawFabricClient client(address(), request_for(1));
  client.alloc(0);
  auto pair = client.add_endpoint();
  onesided::Mapping mapping;
  client.map(0, mapping);
  EXPECT_EQ(RawWrite(*pair, mapping, 0, 64, std::byte{1}).write(), 0);
  // More than sockets hold. Nobody looks after them until another has the volume.
  std::vector<std::unique_ptr<RawWrite>> under_way;
  for (int i = 0; i < 32; ++i) {
    under_way.push_back(std::make_unique<RawWrite>(*pair, mapping, 0, kBlockBytes, std::byte{8}));
    under_way.back()->post();
  }
  auto thief = open(request_for(2, OpenMode::kExclusive, true));
  const auto handle = thief->map(blocks(0), Access::kReadWrite);
  ASSERT_TRUE(handle.ok());
  const std::vector<std::byte> his = pattern(kBlockBytes, 5);
  ASSERT_TRUE(write(*thief, handle->front(), 0, his).ok());
  EXPECT_EQ(RawWrite(*pair, mapping, 0, 64, std::byte{9}).write(), EACCES);
  under_way.clear();
  EXPECT_EQ(read(*thief, handle->front(), 0, kBlockBytes), his);
}

}  // namespace
}  // namespace brickfs::testing
