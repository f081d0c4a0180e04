// SPDX-License-Identifier: Apache-2.0
// A volume that several programs have at once by libbrickfs, each a machine of its own.
#include <sys/file.h>
#include <sys/xattr.h>

#include <chrono>
#include <cstring>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/library/library_bed.h"
#include "tests/support/tcp_test_brick.h"

namespace brickfs::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

class LibraryShared : public ::testing::Test {
 protected:
  std::string source() const { return "tcp://127.0.0.1:" + std::to_string(brick_.port()); }
  int refused(const char* options) {
    brickfs_fs* fs = nullptr;
    const int code = brickfs_fs_open(source().c_str(), options, &fs);
    EXPECT_NE(code, 0) << options;
    EXPECT_NE(std::string(brickfs_error()), "") << options;
    if (code == 0) static_cast<void>(brickfs_fs_close(fs));
    return code;
  }

  TcpTestBrick brick_{memory_config(64)};
};

TEST_F(LibraryShared, TheFirstCoordinatesAndTheOthersAreMembers) {
  OpenFs first(source(), "shared");
  EXPECT_EQ(refused("wait=0"), -EBUSY) << "without shared";
  EXPECT_NE(std::string(brickfs_error()).find("option shared"), std::string::npos) << brickfs_error();
  OpenFs second(source(), "shared");
  OpenFs third(source(), "share,soft,timeo=20");
  put(second, "file", "of a member");
  EXPECT_EQ(get(first, "file"), "of a member");
  put(first, "file", "of the coordinator");
  EXPECT_EQ(get(third, "file"), "of the coordinator");
  ASSERT_EQ(brickfs_mkdir(third, "dir", 0755), 0);
  ASSERT_EQ(brickfs_rename(second, "file", "dir/moved", 0), 0);
  EXPECT_EQ(get(first, "dir/moved"), "of the coordinator");
  struct stat stat {};
  EXPECT_EQ(brickfs_stat(third, "file", 0, &stat), -ENOENT);
  {
    const OpenFile a(first, "log", O_WRONLY | O_CREAT | O_APPEND);
    const OpenFile b(second, "log", O_WRONLY | O_APPEND);
    for (int i = 0; i < 20; ++i) {
      ASSERT_EQ(brickfs_pwrite(a, "a", 1, 0), 1);
      ASSERT_EQ(brickfs_pwrite(b, "b", 1, 0), 1);
    }
    EXPECT_EQ(brickfs_fsync(b), 0);
  }
  std::string lines;
  for (int i = 0; i < 20; ++i) lines += "ab";
  EXPECT_EQ(get(third, "log"), lines);
  EXPECT_EQ(brickfs_setxattr(second, "log", "user.of", "b", 1, 0), 0);
  char value[8] = {};
  EXPECT_EQ(brickfs_getxattr(first, "log", "user.of", value, sizeof(value), 0), 1);
  EXPECT_EQ(brickfs_fs_sync(third), 0);
  EXPECT_EQ(third.close(), 0);
  EXPECT_EQ(second.close(), 0);
  put(first, "alone", "again");
  EXPECT_EQ(first.close(), 0);
  OpenFs after(source());
  EXPECT_EQ(get(after, "alone"), "again");
  EXPECT_EQ(get(after, "log"), lines);
}

TEST_F(LibraryShared, WhoReadsOnlyIsAMember) {
  EXPECT_NE(refused("ro,shared"), 0) << "nobody coordinates";
  OpenFs first(source(), "shared");
  put(first, "file", "bytes");
  OpenFs reader(source(), "ro,shared");
  EXPECT_EQ(brickfs_fs_is_read_only(reader), 1);
  EXPECT_EQ(get(reader, "file"), "bytes");
  EXPECT_EQ(brickfs_mkdir(reader, "dir", 0755), -EROFS);
  EXPECT_EQ(brickfs_unlink(reader, "file"), -EROFS);
}

TEST_F(LibraryShared, LocksHoldBetweenAll) {
  OpenFs first(source(), "shared");
  OpenFs second(source(), "shared");
  put(first, "file", "bytes");
  const OpenFile a(first, "file");
  const OpenFile b(second, "file");
  for (const auto& [holder, other] : {std::pair<brickfs_file*, brickfs_file*>(a, b), {b, a}}) {
    ASSERT_EQ(brickfs_lock(holder, F_WRLCK, 0, 10, 0), 0);
    EXPECT_EQ(brickfs_lock(other, F_RDLCK, 5, 1, 0), -EAGAIN);
    EXPECT_EQ(brickfs_test_lock(other, F_RDLCK, 9, 1), 1);
    EXPECT_EQ(brickfs_test_lock(other, F_RDLCK, 10, 1), 0);
    EXPECT_EQ(brickfs_lock(other, F_WRLCK, 10, 0, 0), 0);
    EXPECT_EQ(brickfs_lock_within(other, F_RDLCK, 0, 1, 60), -ETIMEDOUT);
    ASSERT_EQ(brickfs_flock(holder, LOCK_SH), 0);
    EXPECT_EQ(brickfs_flock(other, LOCK_EX | LOCK_NB), -EAGAIN);
    EXPECT_EQ(brickfs_flock(other, LOCK_SH | LOCK_NB), 0);
    auto waits = std::async(std::launch::async, [&other = other] { return brickfs_lock(other, F_WRLCK, 0, 1, 1); });
    EXPECT_EQ(waits.wait_for(milliseconds(100)), std::future_status::timeout);
    ASSERT_EQ(brickfs_lock(holder, F_UNLCK, 0, 0, 0), 0);
    EXPECT_EQ(waits.get(), 0);
    for (brickfs_file* const file : {holder, other}) {
      EXPECT_EQ(brickfs_lock(file, F_UNLCK, 0, 0, 0), 0);
      EXPECT_EQ(brickfs_flock(file, LOCK_UN), 0);
    }
  }
}

TEST_F(LibraryShared, LocksGoWithTheFile) {
  OpenFs first(source(), "shared");
  OpenFs second(source(), "shared");
  put(first, "file", "bytes");
  const OpenFile waiting(first, "file");
  {
    const OpenFile closed(second, "file");
    ASSERT_EQ(brickfs_lock(closed, F_WRLCK, 0, 0, 0), 0);
    ASSERT_EQ(brickfs_flock(closed, LOCK_EX), 0);
    EXPECT_EQ(brickfs_flock(waiting, LOCK_EX | LOCK_NB), -EAGAIN);
  }
  EXPECT_EQ(brickfs_lock(waiting, F_WRLCK, 0, 0, 0), 0);
  EXPECT_EQ(brickfs_flock(waiting, LOCK_EX | LOCK_NB), 0);
  EXPECT_EQ(second.close(), 0);
}

TEST_F(LibraryShared, WhoIsGivenUpWaitsForNoLock) {
  OpenFs first(source(), "shared");
  brickfs_fs* given_up = nullptr;
  ASSERT_EQ(brickfs_fs_open(source().c_str(), "shared,linger=1", &given_up), 0);
  put(first, "file", "bytes");
  const OpenFile holder(first, "file");
  ASSERT_EQ(brickfs_lock(holder, F_WRLCK, 0, 0, 0), 0);
  brickfs_file* file = nullptr;
  ASSERT_EQ(brickfs_open(given_up, "file", O_RDWR, 0, &file), 0);
  auto waits = std::async(std::launch::async, [&] { return brickfs_lock(file, F_WRLCK, 0, 1, 1); });
  EXPECT_EQ(waits.wait_for(milliseconds(100)), std::future_status::timeout);
  EXPECT_EQ(brickfs_fs_abandon(given_up), 0);
  EXPECT_LT(waits.get(), 0);
  EXPECT_EQ(brickfs_close(file), 0);
  static_cast<void>(brickfs_fs_close(given_up));
  EXPECT_EQ(get(first, "file"), "bytes") << "the others go on";
}

TEST(LibrarySharedAway, ASoftMemberWaitsNoLongerForBricksThanItMay) {
  auto brick = std::make_unique<TcpTestBrick>(memory_config(64));
  const std::string source = "tcp://127.0.0.1:" + std::to_string(brick->port());
  brickfs_fs *coordinator = nullptr, *member = nullptr;
  ASSERT_EQ(brickfs_fs_open(source.c_str(), "shared,linger=1", &coordinator), 0) << brickfs_error();
  ASSERT_EQ(brickfs_fs_open(source.c_str(), "shared,soft,timeo=1,linger=1", &member), 0) << brickfs_error();
  put(coordinator, "file", "bytes");
  brickfs_file* file = nullptr;
  ASSERT_EQ(brickfs_open(member, "file", O_RDONLY, 0, &file), 0);
  brick.reset();
  char bytes[8];
  auto reads = std::async(std::launch::async, [&] { return brickfs_pread(file, bytes, sizeof(bytes), 0); });
  EXPECT_EQ(reads.wait_for(std::chrono::seconds(60)), std::future_status::ready) << "its coordinator answers, no brick";
  for (brickfs_fs* const fs : {member, coordinator}) EXPECT_EQ(brickfs_fs_abandon(fs), 0);
  EXPECT_EQ(reads.get(), -EIO);
  EXPECT_EQ(brickfs_close(file), 0);
  for (brickfs_fs* const fs : {member, coordinator}) static_cast<void>(brickfs_fs_close(fs));
}

TEST_F(LibraryShared, QueuesMoveBytesOfMembers) {
  OpenFs first(source(), "shared");
  OpenFs second(source(), "shared,workers=3");
  constexpr size_t kPages = 64;
  std::vector<std::string> pages;
  for (size_t i = 0; i < kPages; ++i) pages.emplace_back(4096, static_cast<char>('a' + i % 26));
  brickfs_queue* queue = nullptr;
  ASSERT_EQ(brickfs_fs_queue(second, kPages, 0, &queue), 0);
  {
    const OpenFile file(second, "file");
    std::vector<brickfs_request> requests;
    for (size_t i = 0; i < kPages; ++i)
      requests.push_back(
          {.operation = BRICKFS_WRITE, .file = file, .offset = i * 4096, .data = pages[i].data(), .length = 4096});
    ASSERT_EQ(brickfs_submit(queue, requests.data(), kPages), static_cast<int>(kPages));
    for (size_t done = 0; done < kPages;) {
      brickfs_completion completions[kPages];
      const int count = brickfs_poll(queue, completions, kPages, 1, 20'000);
      ASSERT_GT(count, 0);
      for (int i = 0; i < count; ++i) EXPECT_EQ(completions[i].result, 4096);
      done += static_cast<size_t>(count);
    }
  }
  EXPECT_EQ(brickfs_queue_free(queue), 0);
  std::string all;
  for (const std::string& page : pages) all += page;
  EXPECT_TRUE(get(first, "file") == all);
  brickfs_buffer* buffer = nullptr;
  ASSERT_EQ(brickfs_fs_buffer(second, nullptr, all.size(), &buffer), 0);
  {
    const OpenFile file(second, "file", O_RDONLY);
    EXPECT_EQ(brickfs_pread(file, brickfs_buffer_data(buffer), all.size(), 0), static_cast<int64_t>(all.size()));
  }
  EXPECT_EQ(std::memcmp(brickfs_buffer_data(buffer), all.data(), all.size()), 0);
  EXPECT_EQ(brickfs_buffer_free(buffer), 0);
}

TEST_F(LibraryShared, WhatCannotBeIsRefusedInOneLine) {
  EXPECT_EQ(refused("shared,listen=0.0.0.0"), -EINVAL);
  EXPECT_EQ(refused("listen=127.0.0.1"), -EINVAL) << "without shared";
  EXPECT_EQ(refused("shared,follow"), -EINVAL);
  brickfs_fs* fs = nullptr;
  EXPECT_EQ(brickfs_fs_open("memory:64M", "shared", &fs), -EINVAL) << "nobody else has it";
  brickfs_volume* volume = nullptr;
  EXPECT_EQ(brickfs_volume_open(source().c_str(), "shared", &volume), -EINVAL) << "blocks";
  EXPECT_NE(std::string(brickfs_error()).find("shared"), std::string::npos) << brickfs_error();
}

}  // namespace
}  // namespace brickfs::testing
