// SPDX-License-Identifier: Apache-2.0
// A brick one of whose writes of a volume's record fails: who asked for it is told, and everything is as it was.
#include <gtest/gtest.h>

#include <cerrno>
#include <memory>
#include <optional>
#include <string>

#include "server/service/brick_service.h"
#include "tests/support/crash_device.h"
#include "tests/support/tcp_test_brick.h"

namespace brickfs::testing {
namespace {

constexpr uint64_t kBlocks = 8;
constexpr BlockRange kTwo{BlockAddress{0}, 2};

class FailedWrite : public ::testing::Test {
 protected:
  void start() {
    service_.reset();
    disk_->revive();
    BrickConfig config = memory_config(kBlocks);
    config.store_path = "disk";
    config.store_bytes = kBlocks * kBlockBytes;
    std::string why;
    auto service = BrickService::open(config, std::make_unique<CrashDevice>(*disk_), &why);
    ASSERT_TRUE(service.ok()) << why;
    service_ = *std::move(service);
  }
  // With one that has never been used.
  void begin() {
    service_.reset();
    disk_ = std::make_unique<CrashDisk>(DiskImage());
    start();
  }
  Result<SessionPtr> open(uint64_t client, const std::string& volume, Epoch resume = {}) {
    OpenRequest request = request_for(client);
    request.volume = volume;
    request.resume = resume;
    return service_->open_session(
        request, [] {}, nullptr);
  }
  int ask(AdminAction action, bool force) {
    return service_->administer({.action = action, .volume = "home", .size_blocks = {}, .force = force}).status;
  }
  // Of `home`; nothing: it is not there.
  std::optional<uint64_t> used_blocks() {
    for (const VolumeStatus& volume : service_->administer({}).volumes) {
      if (volume.name == "home") return volume.used_blocks;
    }
    return {};
  }

  std::unique_ptr<CrashDisk> disk_;
  std::unique_ptr<BrickService> service_;
};

// It is asked for again, and the brick is killed then, at any moment.
TEST_F(FailedWrite, ARemovalIsWholeOrNotAtAll) {
  bool removed = false;
  for (int end = 1; !removed; ++end) {
    SCOPED_TRACE(end);
    begin();
    ASSERT_EQ(ask(AdminAction::kCreate, false), 0);
    {
      const auto session = open(1, "home");
      ASSERT_TRUE(session.ok());
      ASSERT_TRUE((*session)->alloc(kTwo).ok());
      ASSERT_TRUE((*session)->close().ok());
    }
    disk_->fails_writes = 1;
    ASSERT_EQ(ask(AdminAction::kRemove, true), EIO);
    int left = end;
    disk_->interleave = [&] {
      if (--left == 0) disk_->cut();
    };
    removed = ask(AdminAction::kRemove, true) == 0;
    disk_->interleave = [] {};
    disk_->cut();
    start();
    const auto used = used_blocks();
    EXPECT_TRUE(!used || *used == kTwo.count) << *used << " blocks are left";
    EXPECT_FALSE(removed && used);
  }
}

TEST_F(FailedWrite, WhoIsAwayKeepsHisLeaseIfATakerDoesNotGetIt) {
  begin();
  auto session = open(1, "default");
  ASSERT_TRUE(session.ok());
  const Epoch epoch = (*session)->description().epoch;
  session->reset();
  disk_->fails_writes = 1;
  ASSERT_EQ(open(2, "default").code(), EIO);
  session = open(1, "default", epoch);
  ASSERT_EQ(session.code(), 0);
  EXPECT_EQ((*session)->description().epoch, epoch);
  session->reset();
  const auto taker = open(2, "default");
  ASSERT_TRUE(taker.ok());
  EXPECT_GT((*taker)->description().epoch, epoch);
}

TEST_F(FailedWrite, WhoCannotGiveUpHisLeaseHasIt) {
  begin();
  auto session = open(1, "default");
  ASSERT_TRUE(session.ok());
  const Epoch epoch = (*session)->description().epoch;
  disk_->fails_writes = 1;
  ASSERT_EQ((*session)->close().code(), EIO);
  session->reset();
  session = open(1, "default", epoch);
  ASSERT_EQ(session.code(), 0);
  EXPECT_TRUE((*session)->close().ok());
  session->reset();
  EXPECT_EQ(open(1, "default", epoch).code(), ESTALE);
}

}  // namespace
}  // namespace brickfs::testing
