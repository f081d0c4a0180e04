// SPDX-License-Identifier: Apache-2.0
// A VolumeClient whose blocks others write to: what it adopts, and durable bricks that restart under it.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <thread>

#include "tests/support/kept_bytes.h"
#include "tests/support/volume_io.h"
#include "transport/volume/volume_client.h"

namespace brickfs {
namespace {

using namespace std::chrono_literals;
using testing::blocks;
using testing::Bytes;
using testing::eventually;
using testing::KeptBytes;
using testing::open_volume;
using testing::read;
using testing::remote_options;
using testing::write;
using Watch = KeptBytes::Watch;

constexpr ClientId kMember{70};

Bytes of_member(char c, size_t length = 4096) { return Bytes(length, static_cast<std::byte>(c)); }

// Who follows the holder and writes.
Result<std::unique_ptr<VolumeClient>> open_member(RestartingBrick& brick, const VolumeClient& holder) {
  VolumeOptions options = remote_options();
  options.open.client = kMember;
  options.open.mode = OpenMode::kFollow;
  options.open.bound = options.open.writes = true;
  options.open.resume = holder.session().epoch;
  options.soft = 2s;
  return VolumeClient::open(make_embedded_brick(brick.service()), options, nullptr);
}

// Two blocks, written to by a member, which has gone then, so that the brick can restart.
class VolumeLending : public ::testing::Test {
 protected:
  void start(uint64_t store_blocks = 16, VolumeOptions options = remote_options()) {
    brick_ = std::make_unique<RestartingBrick>(8, store_blocks);
    volume_ = open_volume(*brick_, std::move(options));
    ASSERT_TRUE(volume_->alloc(blocks(0, 4)).ok());
    ASSERT_TRUE(volume_->commit().ok());
    told_ = volume_->session();
    ASSERT_TRUE(volume_->admit(kMember).ok());
  }
  void member_writes(uint64_t address, const Bytes& bytes) {
    auto member = open_member(*brick_, *volume_);
    ASSERT_EQ(member.code(), 0);
    ASSERT_TRUE(write(**member, address, bytes).ok());
    ASSERT_TRUE((*member)->make_visible().ok());
    ASSERT_TRUE((*member)->close().ok());
  }
  Status adopt(uint64_t address, const Bytes& bytes) {
    const LentRange range{address, bytes.size()};
    return volume_->adopt(std::span(&range, 1), told_.boot, told_.epoch,
                          std::make_shared<KeptBytes>(address, bytes, watch_), nullptr);
  }
  RestartingBrick& brick() { return *brick_; }
  VolumeClient& volume() { return *volume_; }
  Watch& watch() { return *watch_; }

 private:
  std::unique_ptr<RestartingBrick> brick_;
  const std::shared_ptr<Watch> watch_ = std::make_shared<Watch>();
  std::unique_ptr<VolumeClient> volume_;
  Session told_;
};

TEST_F(VolumeLending, WhatIsAdoptedIsInTheNextCommit) {
  start();
  member_writes(kBlockBytes - 4096, of_member('m', 12'288));
  ASSERT_EQ(adopt(kBlockBytes - 4096, of_member('m', 12'288)).code(), 0);
  EXPECT_EQ(volume().uncommitted_blocks().ranges(), std::vector{blocks(0, 2)});
  EXPECT_FALSE(volume().is_clean());
  EXPECT_FALSE(watch().is_over);
  ASSERT_TRUE(volume().commit().ok());
  ASSERT_EQ(brick().faults().commits().back().size(), 1u);
  EXPECT_EQ(brick().faults().commits().back()[0].address, kBlockBytes - 4096);
  EXPECT_EQ(brick().faults().commits().back()[0].length_bytes, 12'288u);
  EXPECT_TRUE(watch().is_over) << "the member may forget it";
  EXPECT_EQ(watch().fetched, 0);
}

TEST_F(VolumeLending, ACommitThatFailsKeepsIt) {
  start();
  member_writes(0, of_member('m'));
  ASSERT_TRUE(adopt(0, of_member('m')).ok());
  brick().faults().answer(BrickCall::kCommit, EIO);
  EXPECT_EQ(volume().commit().code(), EIO);
  EXPECT_FALSE(watch().is_over);
  ASSERT_TRUE(volume().commit().ok());
  EXPECT_TRUE(watch().is_over);
}

TEST_F(VolumeLending, ABrickThatRestartsGetsItFromTheMember) {
  start();
  brick().remember_commits();
  const Bytes bytes = of_member('m', 1'000'000);
  member_writes(kBlockBytes - 4096, bytes);
  ASSERT_TRUE(adopt(kBlockBytes - 4096, bytes).ok());
  ASSERT_TRUE(write(volume(), kBlockBytes, of_member('h')).ok());  // by the holder, over it
  brick().restart_from_commit();
  EXPECT_EQ(*read(volume(), kBlockBytes - 4096, 4096), of_member('m'));
  EXPECT_EQ(*read(volume(), kBlockBytes, 4096), of_member('h'));
  EXPECT_EQ(*read(volume(), kBlockBytes + 4096, bytes.size() - 8192), of_member('m', bytes.size() - 8192));
  EXPECT_GT(watch().fetched, 0);
  EXPECT_FALSE(watch().is_over);
  ASSERT_TRUE(volume().commit().ok());
  EXPECT_TRUE(watch().is_over);
  const int fetched = watch().fetched;
  brick().restart_from_commit();
  EXPECT_EQ(*read(volume(), kBlockBytes + 4096, 4096), of_member('m'));
  EXPECT_EQ(watch().fetched, fetched);
}

TEST_F(VolumeLending, OfAMemberThatIsGoneThereAreZerosAndNothingElseIsLost) {
  start();
  ASSERT_TRUE(write(volume(), 0, of_member('o', 12'288)).ok());
  ASSERT_TRUE(volume().commit().ok());
  brick().remember_commits();
  member_writes(4096, of_member('m'));
  ASSERT_TRUE(adopt(4096, of_member('m')).ok());
  ASSERT_TRUE(write(volume(), 2 * kBlockBytes, of_member('h')).ok());
  watch().member_is_gone = true;
  ::testing::internal::CaptureStdout();
  brick().restart_from_commit();
  EXPECT_EQ(*read(volume(), 4096, 4096), Bytes(4096));
  const std::string log = ::testing::internal::GetCapturedStdout();
  EXPECT_NE(log.find("4096 bytes that a member of the test wrote"), std::string::npos) << log;
  EXPECT_EQ(*read(volume(), 0, 4096), of_member('o'));
  EXPECT_EQ(*read(volume(), 8192, 4096), of_member('o'));
  EXPECT_EQ(*read(volume(), 2 * kBlockBytes, 4096), of_member('h'));
}

TEST_F(VolumeLending, ABrickInAnotherLifeIsNotTaken) {
  start();
  member_writes(0, of_member('m'));
  brick().restart();
  EXPECT_EQ(adopt(0, of_member('m')).code(), EAGAIN);
  EXPECT_TRUE(watch().is_over);
  EXPECT_TRUE(volume().is_clean());
  EXPECT_EQ(volume().uncommitted_bytes(), 0u) << "the room for it is there again";
}

TEST_F(VolumeLending, OfFreedBlocksNothingIsKept) {
  start();
  member_writes(kBlockBytes, of_member('m'));
  ASSERT_TRUE(adopt(kBlockBytes, of_member('m')).ok());
  ASSERT_TRUE(volume().free(blocks(1)).ok());
  EXPECT_TRUE(watch().is_over);
}

TEST_F(VolumeLending, OfAVolatileBrickNothingIsKept) {
  start(0);
  member_writes(0, of_member('m'));
  ASSERT_TRUE(adopt(0, of_member('m')).ok());
  EXPECT_TRUE(watch().is_over);
  EXPECT_EQ(*read(volume(), 0, 4096), of_member('m'));
}

// As of a write's data.
TEST_F(VolumeLending, ItTakesRoomSoThatCommitsAreAskedForInTime) {
  VolumeOptions options = remote_options();
  options.replay_bytes = kMiB;
  std::atomic<int> wanted = 0;
  options.on_commit_wanted = [&] { ++wanted; };
  start(16, options);
  ASSERT_TRUE(adopt(0, of_member('m', 400 * 1024)).ok());
  EXPECT_EQ(wanted, 0);
  ASSERT_TRUE(adopt(kBlockBytes, of_member('m', 400 * 1024)).ok());
  EXPECT_EQ(wanted, 1);
  std::thread waits([&] { EXPECT_TRUE(adopt(2 * kBlockBytes, of_member('m', 400 * 1024)).ok()); });
  EXPECT_TRUE(eventually([&] { return wanted > 1; }));
  ASSERT_TRUE(volume().commit().ok());
  waits.join();
  EXPECT_GE(volume().uncommitted_bytes(), 400u * 1024);
}

TEST_F(VolumeLending, WhoIsAdmittedIsSoInTheNextLifeToo) {
  start();
  EXPECT_TRUE(open_member(brick(), volume()).ok());
  brick().restart();
  ASSERT_TRUE(volume().stat().ok());
  EXPECT_TRUE(open_member(brick(), volume()).ok());
  ASSERT_TRUE(volume().expel(kMember).ok());
  EXPECT_EQ(open_member(brick(), volume()).code(), ESTALE);
  brick().restart();
  ASSERT_TRUE(volume().stat().ok());
  EXPECT_EQ(open_member(brick(), volume()).code(), ESTALE);
}

TEST_F(VolumeLending, ItIsAskedForOnlyOnce) {
  start();
  const uint64_t before = brick().faults().calls(BrickCall::kAdmit);
  EXPECT_TRUE(volume().admit(kMember).ok());
  EXPECT_EQ(brick().faults().calls(BrickCall::kAdmit), before);
  brick().faults().answer(BrickCall::kAdmit, EUSERS);
  EXPECT_EQ(volume().admit(ClientId{71}).code(), EUSERS);
  EXPECT_TRUE(volume().admit(ClientId{71}).ok());
}

// What a member was about to write was lent in the former life, and may be another's by now.
TEST_F(VolumeLending, AMemberDoesNotWriteBehindARestart) {
  start();
  const auto faults = std::make_shared<BrickFaults>([this] { return make_embedded_brick(brick().service()); });
  VolumeOptions options = remote_options();
  options.open.client = kMember;
  options.open.mode = OpenMode::kFollow;
  options.open.bound = options.open.writes = true;
  options.open.resume = volume().session().epoch;
  auto member = VolumeClient::open(faults->make_brick(), options, nullptr);
  ASSERT_EQ(member.code(), 0);
  ASSERT_TRUE(write(**member, 0, of_member('m')).ok());
  faults->refuse(true);
  faults->lose([this] { brick().restart(); });
  ASSERT_TRUE(volume().stat().ok());
  ASSERT_TRUE(open_member(brick(), volume()).ok()) << "it would be let in";
  faults->refuse(false);
  EXPECT_EQ(write(**member, 0, of_member('l')).code(), EIO);
  EXPECT_NE(*read(volume(), 0, 4096), of_member('l'));
}

}  // namespace
}  // namespace brickfs
