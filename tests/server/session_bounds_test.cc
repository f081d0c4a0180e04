// SPDX-License-Identifier: Apache-2.0
// What one session may hold of a brick, and how soon that is gone when it ends.
#include <gtest/gtest.h>

#include <cerrno>
#include <chrono>
#include <future>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "server/service/brick_service.h"
#include "server/service/handle_table.h"
#include "server/service/server_limits.h"
#include "tests/support/brick_factory.h"
#include "tests/support/tcp_test_brick.h"
#include "transport/brick/limits.h"

namespace brickfs {
namespace {

using namespace std::chrono_literals;
using testing::memory_config;
using testing::request_for;

std::unique_ptr<BrickService> start(const BrickConfig& config) {
  std::string why;
  auto service = BrickService::open(config, &why);
  EXPECT_TRUE(service.ok()) << why;
  return service.ok() ? *std::move(service) : nullptr;
}

SessionPtr open(BrickService& service, const OpenRequest& request) {
  auto session = service.open_session(
      request, [] {}, nullptr);
  EXPECT_EQ(session.code(), 0);
  return session.ok() ? *std::move(session) : nullptr;
}

// Each handle costs memory of the brick, and time when it ends.
TEST(SessionBounds, MappingTheSameBlocksAgainAndAgainComesToAnEnd) {
  constexpr uint64_t kBlocks = 8;
  const auto service = start(memory_config(kBlocks));
  const auto session = open(*service, request_for(1));
  const BlockRange all{BlockAddress{0}, kBlocks};
  ASSERT_TRUE(session->alloc(all).ok());
  const uint64_t most = limits::kMappingsOfFrame * kBlocks + limits::kBlocksPerCall;
  uint64_t mapped = 0;
  Status status;
  while (status.ok() && mapped <= most) {
    const auto handles = session->map(all, Access::kRead);
    status = handles.ok() ? Status() : handles.error();
    if (status.ok()) mapped += kBlocks;
  }
  EXPECT_EQ(status.code(), ENOMEM);
  EXPECT_EQ(mapped, most / kBlocks * kBlocks);
  ASSERT_TRUE(session->unmap(all).ok());  // and what is given up may be had again
  EXPECT_TRUE(session->map(all, Access::kReadWrite).ok());
}

// Has room for one grant; when it is asked for another, the session unmaps what has the first.
class OneGrant final : public RemoteAccess {
 public:
  Result<uint32_t> grant(std::span<std::byte>, Access) override {
    if (++asked_ == 1) return kKey;
    EXPECT_TRUE(session->unmap({BlockAddress{0}, 1}).ok());
    return Error(ENOMEM, "the device has no window left");
  }
  size_t reach(const std::byte*) const override { return kBlockBytes; }
  void add_keys(calls::Mapped&) const override {}
  void revoke(std::span<const uint32_t> keys) override { revoked.insert(revoked.end(), keys.begin(), keys.end()); }
  void cut_off() override {}
  Result<calls::Answer> call(const calls::Request&) override { return Error(EPROTO, "no such call"); }

  static constexpr uint32_t kKey = 7;
  ServerSession* session = nullptr;
  std::vector<uint32_t> revoked;

 private:
  int asked_ = 0;
};

TEST(SessionBounds, AMapThatFailsLeavesNothingAlsoOfWhatWasUnmappedMeanwhile) {
  constexpr BlockRange kTwo{BlockAddress{0}, 2};
  const auto service = start(memory_config(2));
  const auto access = std::make_shared<OneGrant>();
  const auto session = service->open_session(request_for(1), PeerEnd{[] {}, access}, nullptr);
  ASSERT_TRUE(session.ok());
  access->session = session->get();
  ASSERT_TRUE((*session)->alloc(kTwo).ok());
  EXPECT_EQ((*session)->map(kTwo, Access::kReadWrite).code(), ENOMEM);
  EXPECT_EQ(access->revoked, std::vector{OneGrant::kKey});
  EXPECT_TRUE((*session)->free(kTwo).ok()) << "none of them is mapped";
}

// With a search among the handles of a block for each it took minutes.
TEST(SessionBounds, ManyHandlesOnOneBlockGoInLittleTime) {
  constexpr size_t kHandles = 200'000;
  HandleTable table(kHandles);
  std::vector<std::byte> memory(1);
  for (size_t i = 0; i < kHandles; ++i) ASSERT_TRUE(table.add({BlockAddress{0}, 1}, Access::kRead, memory.data()).ok());
  EXPECT_EQ(table.add({BlockAddress{0}, 1}, Access::kRead, memory.data()).code(), ENOMEM);
  const auto before = std::chrono::steady_clock::now();
  EXPECT_EQ(table.revoke_all().size(), kHandles);
  EXPECT_LT(std::chrono::steady_clock::now() - before, 60s);
}

TEST(SessionBounds, AVolumeHasSoManyObservers) {
  const auto service = start(memory_config(2));
  std::vector<SessionPtr> observers;
  for (size_t i = 0; i < limits::kObservers; ++i)
    observers.push_back(open(*service, request_for(1 + i, OpenMode::kObserve)));
  const auto more = [&] {
    return service
        ->open_session(
            request_for(1000, OpenMode::kObserve), [] {}, nullptr)
        .code();
  };
  EXPECT_EQ(more(), EUSERS);
  observers.pop_back();
  EXPECT_EQ(more(), 0);
}

// A call under way keeps the lease: its client cannot be heard on that connection meanwhile.
TEST(SessionBounds, WhoWaitsForACallIsNotSilent) {
  const auto service = start(memory_config(2));
  const auto session = open(*service, request_for(1));
  ASSERT_TRUE(session->alloc({BlockAddress{0}, 1}).ok());
  const Handle handle = session->map({BlockAddress{0}, 1}, Access::kRead)->front();
  const auto pin = [&] { return session->pin(handle.remote_key, handle.remote_address, 1, Access::kRead); };
  auto pinned = pin();
  ASSERT_TRUE(pinned.ok());
  auto unmapping = std::async(std::launch::async, [&] { return session->unmap({BlockAddress{0}, 1}).code(); });
  while (pin().ok()) std::this_thread::yield();  // until it is under way
  const auto after_the_lease = [] { return std::chrono::steady_clock::now() + limits::kLease + 1s; };
  service->expire_silent(after_the_lease());
  *pinned = Pin();
  EXPECT_EQ(unmapping.get(), 0);
  EXPECT_TRUE(session->stat().ok());
  service->expire_silent(after_the_lease());
  EXPECT_EQ(session->stat().code(), ESTALE);
}

}  // namespace
}  // namespace brickfs
