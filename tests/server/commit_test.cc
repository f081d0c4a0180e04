// SPDX-License-Identifier: Apache-2.0
// What a commit writes to the store, and what it has written by the time of each sync: this program's pwritev2 and
// fdatasync look, then do it.
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "server/service/embedded_brick.h"
#include "tests/support/brick_contract.h"
#include "transport/brick/limits.h"

namespace {

std::function<void()>* at_sync = nullptr;
std::atomic<uint64_t> written_bytes{0};

}  // namespace

extern "C" int fdatasync(int fd) {
  if (at_sync != nullptr) (*at_sync)();
  return static_cast<int>(syscall(SYS_fdatasync, fd));
}

extern "C" ssize_t pwritev2(int fd, const iovec* parts, int count, off_t offset, int flags) {
  const ssize_t written = syscall(SYS_pwritev2, fd, parts, count, offset, 0, flags);
  if (written > 0) written_bytes += static_cast<uint64_t>(written);
  return written;
}

namespace brickfs::testing {
namespace {

constexpr char kStamp[] = "these bytes are in a block just allocated";

bool has_stamp(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  return bytes.find(kStamp) != bytes.npos;
}

class Commit : public ::testing::Test {
 protected:
  static constexpr uint64_t kBlocks = 4;

  void SetUp() override {
    service_ = open_service_on(path_, kBlocks, kBlocks);
    ASSERT_NE(service_, nullptr);
  }

  std::unique_ptr<Brick> open_as(uint64_t client) {
    auto brick = make_embedded_brick(service_);
    OpenRequest request;
    request.client = ClientId{client};
    const auto session = brick->open(request, nullptr);
    EXPECT_TRUE(session.ok());
    if (session.ok()) suspect_blocks_ = session->suspect_blocks;
    return brick;
  }

  const TemporaryDirectory directory_;
  const std::string path_ = directory_.path("store");
  std::shared_ptr<BrickService> service_;
  uint64_t suspect_blocks_ = 0;  // when the last client came
};

// A power failure may keep any of what was not synced: so no byte is written before the table that says whose it is.
TEST_F(Commit, TheBlockTableIsSyncedBeforeBytesAreWritten) {
  const auto brick = open_as(1);
  ASSERT_TRUE(brick->alloc(blocks(0)).ok());
  const auto handles = brick->map(blocks(0), Access::kReadWrite);
  ASSERT_TRUE(handles.ok());
  std::vector<std::byte> stamp(sizeof(kStamp));
  std::memcpy(stamp.data(), kStamp, sizeof(kStamp));
  ASSERT_TRUE(write(*brick, handles->front(), 0, stamp).ok());

  std::vector<bool> written;  // by each sync
  std::function<void()> look = [&] { written.push_back(has_stamp(path_)); };
  at_sync = &look;
  const CommitRange range{0, sizeof(kStamp), false};
  const bool committed = brick->commit({&range, 1}).ok();
  const bool again = brick->commit({&range, 1}).ok();  // with the table as it was: one sync does
  at_sync = nullptr;
  EXPECT_TRUE(committed && again);
  EXPECT_EQ(written, (std::vector<bool>{false, true, true}));
}

// Who takes a volume over commits all of it: that must not cost a write of all of it.
TEST_F(Commit, ATakeOverWritesOnlyWhatTheStoreDoesNotHave) {
  {
    const auto lost = open_as(1);
    ASSERT_TRUE(lost->alloc(blocks(0, kBlocks)).ok());
    auto handles = lost->map(blocks(0, 2), Access::kReadWrite);
    ASSERT_TRUE(handles.ok());
    ASSERT_TRUE(write(*lost, handles->front(), 0, pattern(2 * kBlockBytes, 1)).ok());
    ASSERT_TRUE(lost->unmap(blocks(0, 2)).ok());  // stores them
    handles = lost->map(blocks(2, 2), Access::kReadWrite);
    ASSERT_TRUE(handles.ok());
    ASSERT_TRUE(write(*lost, handles->front(), kBlockBytes / 2, pattern(4096, 2)).ok());
  }
  auto taker = open_as(2);
  EXPECT_EQ(suspect_blocks_, 2);
  const CommitRange all{0, kBlocks * kBlockBytes, false};
  written_bytes = 0;
  ASSERT_TRUE(taker->commit({&all, 1}).ok());
  EXPECT_EQ(written_bytes, 4096);
  taker.reset();
  open_as(3);
  EXPECT_EQ(suspect_blocks_, 0);
}

// 8,192 ranges that all name the whole volume are as much as one: a client could keep the store busy for hours by a
// single call.
TEST_F(Commit, WhatIsNamedOftenIsWrittenOnce) {
  const auto brick = open_as(1);
  ASSERT_TRUE(brick->alloc(blocks(0, kBlocks)).ok());
  const auto handles = brick->map(blocks(0, kBlocks), Access::kReadWrite);
  ASSERT_TRUE(handles.ok());
  ASSERT_TRUE(write(*brick, handles->front(), 0, pattern(kBlockBytes, 3)).ok());
  std::vector<CommitRange> ranges(limits::kRangesPerCommit, CommitRange{0, kBlocks * kBlockBytes, false});
  for (size_t i = 0; i < ranges.size(); i += 2) ranges[i].after_previous = true;
  int syncs = 0;
  std::function<void()> count = [&] { ++syncs; };
  at_sync = &count;
  written_bytes = 0;
  const bool committed = brick->commit(ranges).ok();
  at_sync = nullptr;
  EXPECT_TRUE(committed);
  EXPECT_EQ(written_bytes, kBlocks * kBlockBytes);
  EXPECT_LE(syncs, 2);
}

// More than the volume has cannot be named at all.
TEST_F(Commit, BlocksThatDoNotExistAreRefused) {
  const auto brick = open_as(1);
  ASSERT_TRUE(brick->alloc(blocks(0, 2)).ok());
  const CommitRange beyond{0, 2 * kBlockBytes + 1, false};
  EXPECT_EQ(brick->commit({&beyond, 1}).code(), ENOENT);
  const CommitRange everything{0, UINT64_MAX, false};
  EXPECT_EQ(brick->commit({&everything, 1}).code(), ENOENT);
}

// Nobody waits for the answer any more: not a block more is written.
TEST_F(Commit, IsGivenUpBetweenTwoBlocks) {
  OpenRequest request;
  request.client = ClientId{1};
  auto session = service_->open_session(
      request, [] {}, nullptr);
  ASSERT_TRUE(session.ok());
  ASSERT_TRUE((*session)->alloc(blocks(0, kBlocks)).ok());
  ASSERT_TRUE((*session)->map(blocks(0, kBlocks), Access::kReadWrite).ok());
  const CommitRange all{0, kBlocks * kBlockBytes, false};
  written_bytes = 0;
  EXPECT_EQ((*session)->call(calls::Commit{{all}}, [] { return written_bytes >= kBlockBytes; }).code(), ESTALE);
  EXPECT_EQ(written_bytes, kBlockBytes);
  EXPECT_TRUE((*session)->commit({&all, 1}).ok());
}

}  // namespace
}  // namespace brickfs::testing
