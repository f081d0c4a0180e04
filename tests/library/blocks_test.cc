// SPDX-License-Identifier: Apache-2.0
#include <poll.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <set>
#include <thread>

#include "tests/library/library_bed.h"
#include "tests/support/tcp_test_brick.h"

namespace brickfs::testing {
namespace {

constexpr uint64_t kBlock = BRICKFS_BLOCK_BYTES;

// The same over TCP and embedded.
class LibraryBlocks : public ::testing::TestWithParam<bool> {
 protected:
  LibraryBlocks() {
    if (GetParam()) brick_ = std::make_unique<TcpTestBrick>(memory_config(32));
    EXPECT_EQ(brickfs_volume_open(source().c_str(), nullptr, &volume_), 0) << brickfs_error();
  }
  ~LibraryBlocks() override {
    if (volume_ == nullptr) return;
    EXPECT_EQ(brickfs_volume_close(volume_), 0);
  }
  std::string source() const {
    return brick_ ? "tcp://127.0.0.1:" + std::to_string(brick_->port()) : std::string("memory:64M");
  }
  void make_blocks(uint64_t first, uint64_t count) {
    ASSERT_EQ(brickfs_volume_alloc(volume_, first * kBlock, count), 0);
    ASSERT_EQ(brickfs_volume_map(volume_, first * kBlock, count, 1), 0);
  }

  std::unique_ptr<TcpTestBrick> brick_;
  brickfs_volume* volume_ = nullptr;
};

TEST_P(LibraryBlocks, BytesComeBack) {
  make_blocks(3, 3);
  std::string bytes(3 << 20, '\0');
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 7 + i / 1000);
  const uint64_t address = 3 * kBlock + 12345;
  ASSERT_EQ(brickfs_volume_write(volume_, bytes.data(), bytes.size(), address, nullptr), 3 << 20);
  std::string back(bytes.size(), '?');
  ASSERT_EQ(brickfs_volume_read(volume_, back.data(), back.size(), address, nullptr), 3 << 20);
  EXPECT_TRUE(back == bytes);
  char zero[4] = "???";
  EXPECT_EQ(brickfs_volume_read(volume_, zero, 4, 6 * kBlock - 4, nullptr), 4);
  EXPECT_EQ(std::memcmp(zero, "\0\0\0\0", 4), 0);
  const brickfs_range range{address, bytes.size()};
  EXPECT_EQ(brickfs_volume_commit(volume_, &range, 1), 0);
  EXPECT_EQ(brickfs_volume_commit(volume_, nullptr, 0), 0);
  const brickfs_range nothing{address, 0};
  EXPECT_EQ(brickfs_volume_commit(volume_, &nothing, 1), -EINVAL);
}

TEST_P(LibraryBlocks, WrongArgumentsAreAnErrno) {
  make_blocks(0, 1);
  char bytes[16] = {};
  EXPECT_EQ(brickfs_volume_alloc(volume_, 5, 1), -EINVAL);
  EXPECT_EQ(brickfs_volume_alloc(volume_, 0, 0), -EINVAL);
  EXPECT_EQ(brickfs_volume_alloc(volume_, 0, UINT64_MAX), -EINVAL);
  EXPECT_EQ(brickfs_volume_alloc(volume_, 0, 1), -EEXIST);
  EXPECT_EQ(brickfs_volume_alloc(volume_, kBlock, 1000), -ENOSPC);
  EXPECT_EQ(brickfs_volume_map(volume_, 9 * kBlock, 1, 0), -ENOENT);
  EXPECT_EQ(brickfs_volume_free(volume_, 9 * kBlock, 1), -ENOENT);
  EXPECT_EQ(brickfs_volume_read(volume_, bytes, 16, 9 * kBlock, nullptr), -ENXIO);
  EXPECT_EQ(brickfs_volume_read(volume_, bytes, 16, kBlock - 8, nullptr), -ENXIO);
  EXPECT_EQ(brickfs_volume_read(volume_, bytes, 0, 0, nullptr), -EINVAL);
  EXPECT_EQ(brickfs_volume_read(volume_, bytes, SIZE_MAX, 0, nullptr), -EINVAL);
  EXPECT_EQ(brickfs_volume_read(volume_, nullptr, 16, 0, nullptr), -EFAULT);
  EXPECT_EQ(brickfs_volume_read(volume_, bytes, 16, UINT64_MAX - 4, nullptr), -EINVAL);
  EXPECT_EQ(brickfs_volume_map(volume_, 0, 1, 0), 0);
  EXPECT_EQ(brickfs_volume_write(volume_, bytes, 16, 0, nullptr), -ENXIO);
  EXPECT_EQ(brickfs_volume_unmap(volume_, 0, 1), 0);
  EXPECT_EQ(brickfs_volume_read(volume_, bytes, 16, 0, nullptr), -ENXIO);
  EXPECT_EQ(brickfs_volume_close(nullptr), -EFAULT);
}

TEST_P(LibraryBlocks, AllocatedBlocksAreListed) {
  ASSERT_EQ(brickfs_volume_alloc(volume_, 2 * kBlock, 3), 0);
  ASSERT_EQ(brickfs_volume_alloc(volume_, 9 * kBlock, 1), 0);
  brickfs_range runs[4];
  uint64_t cursor = 0;
  ASSERT_EQ(brickfs_volume_list(volume_, &cursor, runs, 1), 1);
  EXPECT_EQ(runs[0].address, 2 * kBlock);
  EXPECT_EQ(runs[0].count, 3u);
  ASSERT_EQ(brickfs_volume_list(volume_, &cursor, runs, 4), 1);
  EXPECT_EQ(runs[0].address, 9 * kBlock);
  EXPECT_EQ(brickfs_volume_list(volume_, &cursor, runs, 4), 0);
  ASSERT_EQ(brickfs_volume_free(volume_, 3 * kBlock, 1), 0);
  cursor = 0;
  EXPECT_EQ(brickfs_volume_list(volume_, &cursor, runs, 4), 3);
  brickfs_volume_stat_t stat{};
  ASSERT_EQ(brickfs_volume_stat(volume_, &stat), 0);
  EXPECT_EQ(stat.used_blocks, 3u);
  EXPECT_STREQ(stat.transport, GetParam() ? "tcp" : "embedded");
}

TEST_P(LibraryBlocks, BuffersAreTheirVolumes) {
  make_blocks(0, 1);
  brickfs_buffer* buffer = nullptr;
  ASSERT_EQ(brickfs_volume_buffer(volume_, nullptr, 8192, &buffer), 0);
  auto* const bytes = static_cast<char*>(brickfs_buffer_data(buffer));
  EXPECT_EQ(brickfs_buffer_length(buffer), 8192u);
  EXPECT_EQ(brickfs_volume_close(volume_), -EBUSY);
  EXPECT_EQ(brickfs_volume_write(volume_, bytes, 8192, 0, buffer), 8192);
  EXPECT_EQ(brickfs_volume_write(volume_, bytes + 1, 8192, 0, buffer), -EINVAL);
  EXPECT_EQ(brickfs_volume_write(volume_, bytes - 1, 16, 0, buffer), -EINVAL);
  const OpenFs fs("memory:16M");
  const OpenFile file(fs, "file");
  const brickfs_vector foreign{bytes, 16, buffer};
  EXPECT_EQ(brickfs_pwritev(file, &foreign, 1, 0), -EINVAL);
  EXPECT_EQ(brickfs_buffer_free(buffer), 0);
  std::string mine(100, 'x');
  ASSERT_EQ(brickfs_volume_buffer(volume_, mine.data(), mine.size(), &buffer), 0);
  EXPECT_EQ(brickfs_buffer_data(buffer), mine.data());
  EXPECT_EQ(brickfs_volume_write(volume_, mine.data(), 100, 0, buffer), 100);
  EXPECT_EQ(brickfs_buffer_free(buffer), 0);
  EXPECT_EQ(brickfs_volume_buffer(volume_, nullptr, 0, &buffer), -EINVAL);
}

void move_by_queue(brickfs_volume* volume, unsigned flags) {
  constexpr unsigned kDepth = 8;
  constexpr unsigned kRequests = 100;
  brickfs_queue* queue = nullptr;
  ASSERT_EQ(brickfs_volume_queue(volume, kDepth, flags, &queue), 0);
  std::vector<std::string> pages;
  for (unsigned i = 0; i < kRequests; ++i) pages.push_back(std::string(4096, static_cast<char>('a' + i % 26)));
  for (const uint32_t operation : {BRICKFS_WRITE, BRICKFS_READ}) {
    std::vector<brickfs_request> requests(kRequests);
    for (unsigned i = 0; i < kRequests; ++i) {
      if (operation == BRICKFS_READ) pages[i].assign(4096, '?');
      requests[i].operation = operation;
      requests[i].offset = i * 4096 + 100;
      requests[i].data = pages[i].data();
      requests[i].length = 4096;
      requests[i].user_data = i;
    }
    std::set<uint64_t> seen;
    unsigned submitted = 0;
    brickfs_completion done[kDepth];
    while (seen.size() < kRequests) {
      const int taken = brickfs_submit(queue, requests.data() + submitted, kRequests - submitted);
      ASSERT_GE(taken, 0);
      submitted += static_cast<unsigned>(taken);
      ASSERT_LE(submitted - seen.size(), kDepth);
      const int count = brickfs_poll(queue, done, kDepth, 1, -1);
      ASSERT_GT(count, 0);
      for (int i = 0; i < count; ++i) {
        EXPECT_EQ(done[i].result, 4096);
        EXPECT_TRUE(seen.insert(done[i].user_data).second);
      }
    }
    EXPECT_EQ(brickfs_poll(queue, done, kDepth, 1, -1), 0);
  }
  for (unsigned i = 0; i < kRequests; ++i) EXPECT_EQ(pages[i], std::string(4096, static_cast<char>('a' + i % 26)));
  EXPECT_EQ(brickfs_queue_free(queue), 0);
}

TEST_P(LibraryBlocks, ManyUnderWayInOneThread) {
  make_blocks(0, 2);
  move_by_queue(volume_, 0);
  move_by_queue(volume_, BRICKFS_QUEUE_BACKGROUND);
}

TEST_P(LibraryBlocks, WrongRequestsComplete) {
  make_blocks(0, 1);
  brickfs_queue* queue = nullptr;
  EXPECT_EQ(brickfs_volume_queue(volume_, 0, 0, &queue), -EINVAL);
  EXPECT_EQ(brickfs_volume_queue(volume_, 4, 8, &queue), -EINVAL);
  ASSERT_EQ(brickfs_volume_queue(volume_, 4, 0, &queue), 0);
  EXPECT_EQ(brickfs_queue_descriptor(queue), -EINVAL);
  char byte = 'x';
  std::vector<brickfs_request> requests(3);
  requests[0] = {.operation = BRICKFS_FSYNC, .user_data = 1};
  requests[1] = {.operation = BRICKFS_READ, .offset = 5 * kBlock, .data = &byte, .length = 1, .user_data = 2};
  requests[2] = {.operation = BRICKFS_READ, .data = &byte, .length = 1, .user_data = 3, .reserved = 1};
  ASSERT_EQ(brickfs_submit(queue, requests.data(), 3), 3);
  brickfs_completion done[4];
  ASSERT_EQ(brickfs_poll(queue, done, 4, 3, -1), 3);
  EXPECT_EQ(done[0].result, -EINVAL);
  EXPECT_EQ(done[1].result, -ENXIO);
  EXPECT_EQ(done[2].result, -EINVAL);
  EXPECT_EQ(brickfs_volume_close(volume_), -EBUSY);
  EXPECT_EQ(brickfs_queue_free(queue), 0);
}

TEST_P(LibraryBlocks, DescriptorIsReadableWhileThereAreCompletions) {
  make_blocks(0, 1);
  brickfs_queue* queue = nullptr;
  ASSERT_EQ(brickfs_volume_queue(volume_, 4, BRICKFS_QUEUE_BACKGROUND, &queue), 0);
  pollfd descriptor{brickfs_queue_descriptor(queue), POLLIN, 0};
  EXPECT_EQ(::poll(&descriptor, 1, 0), 0);
  brickfs_completion done[4];
  EXPECT_EQ(brickfs_poll(queue, done, 4, 1, 10), 0);
  char bytes[2] = {};
  std::vector<brickfs_request> requests(2);
  for (int i = 0; i < 2; ++i) requests[i] = {.operation = BRICKFS_READ, .data = bytes + i, .length = 1};
  ASSERT_EQ(brickfs_submit(queue, requests.data(), 2), 2);
  for (int taken = 0; taken < 2; ++taken) {
    EXPECT_EQ(::poll(&descriptor, 1, 10'000), 1);
    EXPECT_EQ(brickfs_poll(queue, done, 1, 1, 10'000), 1);
  }
  EXPECT_EQ(::poll(&descriptor, 1, 0), 0);
  EXPECT_EQ(brickfs_queue_free(queue), 0);
}

TEST_P(LibraryBlocks, APollThatWaitsForNothingGetsThereToo) {
  make_blocks(0, 1);
  brickfs_queue* queue = nullptr;
  ASSERT_EQ(brickfs_volume_queue(volume_, 4, 0, &queue), 0);
  brickfs_buffer* buffer = nullptr;
  ASSERT_EQ(brickfs_volume_buffer(volume_, nullptr, 4096, &buffer), 0);
  const brickfs_request request{
      .operation = BRICKFS_READ, .data = brickfs_buffer_data(buffer), .length = 4096, .buffer = buffer};
  ASSERT_EQ(brickfs_submit(queue, &request, 1), 1);
  EXPECT_EQ(brickfs_buffer_free(buffer), -EBUSY);
  brickfs_completion done{};
  int count = 0;
  for (int i = 0; i < 10'000 && count == 0; ++i) {
    count = brickfs_poll(queue, &done, 1, 0, -1);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(count, 1);
  EXPECT_EQ(done.result, 4096);
  EXPECT_EQ(brickfs_buffer_free(buffer), 0);
  EXPECT_EQ(brickfs_queue_free(queue), 0);
}

TEST_P(LibraryBlocks, GivenUpTheSessionEndsWhatWaits) {
  if (!GetParam()) GTEST_SKIP() << "an embedded brick is never away";
  make_blocks(0, 1);
  std::thread waiter([&] {
    brickfs_notice notice{7, 0, 0, 0, 0};
    EXPECT_EQ(brickfs_volume_wait(volume_, &notice, 1, -1), -ENOTCONN);
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_EQ(brickfs_volume_abandon(volume_), 0);
  waiter.join();
  EXPECT_EQ(brickfs_volume_reopen(volume_), 0);
  EXPECT_EQ(brickfs_volume_map(volume_, 0, 1, 1), 0);
  EXPECT_EQ(brickfs_volume_abandon(nullptr), -EFAULT);
}

brickfs_notice notice_of(uint64_t tag) { return {tag, 0, 0, 0, 0}; }

TEST_P(LibraryBlocks, NotificationsAreCounted) {
  brickfs_notice notices[2] = {notice_of(1), notice_of(2)};
  EXPECT_EQ(brickfs_volume_wait(volume_, notices, 2, 0), 0);
  ASSERT_EQ(brickfs_volume_notify(volume_, 2, 20), 0);
  ASSERT_EQ(brickfs_volume_wait(volume_, notices, 2, -1), 1);
  EXPECT_EQ(notices[0].news, 0u);
  EXPECT_EQ(notices[1].news, 1u);
  EXPECT_EQ(notices[1].value, 20u);
  EXPECT_EQ(brickfs_volume_wait(volume_, notices, 2, 20), 0);
  EXPECT_EQ(notices[1].news, 0u);
  for (uint64_t value = 21; value < 25; ++value) ASSERT_EQ(brickfs_volume_notify(volume_, 2, value), 0);
  ASSERT_EQ(brickfs_volume_notify(volume_, 1, 11), 0);
  ASSERT_EQ(brickfs_volume_wait(volume_, notices, 2, 1000), 2);
  EXPECT_EQ(notices[0].value, 11u);
  EXPECT_EQ(notices[1].news, 4u);  // three were passed over
  EXPECT_EQ(notices[1].value, 24u);
  EXPECT_EQ(notices[1].count, 5u);
  brickfs_notice late = notice_of(2);
  ASSERT_EQ(brickfs_volume_wait(volume_, &late, 1, -1), 1);
  EXPECT_EQ(late.news, 5u);
  EXPECT_EQ(brickfs_volume_wait(volume_, nullptr, 1, 0), -EFAULT);
  EXPECT_EQ(brickfs_volume_wait(volume_, &late, 0, 0), -EINVAL);
  EXPECT_EQ(brickfs_volume_wait(volume_, &late, BRICKFS_NOTICES_MAX + 1, 0), -EINVAL);
  EXPECT_EQ(brickfs_volume_notify(nullptr, 0, 0), -EFAULT);
}

INSTANTIATE_TEST_SUITE_P(Bricks, LibraryBlocks, ::testing::Values(false, true),
                         [](const auto& info) { return info.param ? "Tcp" : "Embedded"; });

TEST(LibraryVolume, ReopensAfterTheConnectionWasLost) {
  TcpTestBrick brick(memory_config(16));
  const std::string source = "tcp://127.0.0.1:" + std::to_string(brick.port());
  brickfs_volume* volume = nullptr;
  ASSERT_EQ(brickfs_volume_open(source.c_str(), nullptr, &volume), 0);
  ASSERT_EQ(brickfs_volume_alloc(volume, 0, 1), 0);
  ASSERT_EQ(brickfs_volume_map(volume, 0, 1, 1), 0);
  brick.restart();
  char byte = 'x';
  int64_t code = 1;
  for (int i = 0; i < 100 && code > 0; ++i) code = brickfs_volume_write(volume, &byte, 1, 0, nullptr);
  EXPECT_EQ(code, -ENOTCONN);
  EXPECT_EQ(brickfs_volume_reopen(volume), 1);
  EXPECT_EQ(brickfs_volume_write(volume, &byte, 1, 0, nullptr), -ENXIO);
  EXPECT_EQ(brickfs_volume_alloc(volume, 0, 1), 0);  // its memory was lost with it
  EXPECT_EQ(brickfs_volume_map(volume, 0, 1, 1), 0);
  EXPECT_EQ(brickfs_volume_write(volume, &byte, 1, 0, nullptr), 1);
  EXPECT_EQ(brickfs_volume_close(volume), 0);
}

class OpenVolume {
 public:
  OpenVolume(const std::string& source, const char* options) {
    EXPECT_EQ(brickfs_volume_open(source.c_str(), options, &volume_), 0) << brickfs_error();
  }
  ~OpenVolume() {
    if (volume_ == nullptr) return;
    brickfs_volume_close(volume_);  // whose session may be lost
  }
  operator brickfs_volume*() const { return volume_; }  // NOLINT(google-explicit-constructor)

 private:
  brickfs_volume* volume_ = nullptr;
};

class LibraryNotices : public ::testing::Test {
 protected:
  std::string source() const { return "tcp://127.0.0.1:" + std::to_string(brick_.port()); }

  TcpTestBrick brick_{memory_config(16)};
};

TEST_F(LibraryNotices, AFollowerReadsBesideTheWriter) {
  const OpenVolume writer(source(), nullptr);
  const OpenVolume reader(source(), "follow");
  brickfs_volume_stat_t stat{};
  ASSERT_EQ(brickfs_volume_stat(reader, &stat), 0);
  EXPECT_EQ(stat.read_only, 1u);
  ASSERT_EQ(brickfs_volume_alloc(writer, 0, 1), 0);
  ASSERT_EQ(brickfs_volume_map(writer, 0, 1, 1), 0);
  EXPECT_EQ(brickfs_volume_map(reader, 0, 1, 1), -EROFS);
  EXPECT_EQ(brickfs_volume_alloc(reader, kBlock, 1), -EROFS);
  EXPECT_EQ(brickfs_volume_free(reader, 0, 1), -EROFS);
  EXPECT_EQ(brickfs_volume_commit(reader, nullptr, 0), -EROFS);
  ASSERT_EQ(brickfs_volume_map(reader, 0, 1, 0), 0);
  brickfs_notice notice = notice_of(1);
  for (uint64_t i = 1; i < 50; ++i) {
    ASSERT_EQ(brickfs_volume_write(writer, &i, sizeof(i), 8, nullptr), 8);
    ASSERT_EQ(brickfs_volume_notify(writer, 1, i), 0);
    ASSERT_EQ(brickfs_volume_wait(reader, &notice, 1, 10'000), 1);
    uint64_t read = 0;
    ASSERT_EQ(brickfs_volume_read(reader, &read, sizeof(read), 8, nullptr), 8);
    EXPECT_EQ(read, i);
    EXPECT_EQ(notice.value, i);
  }
  EXPECT_EQ(brickfs_volume_free(writer, 0, 1), 0) << "a reader holds nobody up";
  uint64_t read = 0;
  EXPECT_LT(brickfs_volume_read(reader, &read, sizeof(read), 8, nullptr), 0);
  brickfs_fs* fs = nullptr;
  EXPECT_EQ(brickfs_fs_open(source().c_str(), "follow", &fs), -EINVAL);
  EXPECT_NE(std::string(brickfs_error()).find("follow"), std::string::npos);
}

TEST_F(LibraryNotices, WhatARestartedBrickForgotIsLearnt) {
  const OpenVolume writer(source(), nullptr);
  const OpenVolume reader(source(), "follow");
  brickfs_notice notices[2] = {notice_of(1), notice_of(2)};
  ASSERT_EQ(brickfs_volume_notify(writer, 1, 5), 0);
  ASSERT_EQ(brickfs_volume_wait(reader, notices, 2, -1), 1);
  std::thread restarting([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    brick_.restart();
  });
  EXPECT_EQ(brickfs_volume_wait(reader, notices, 2, -1), -ENOTCONN);
  restarting.join();
  EXPECT_EQ(brickfs_volume_reopen(reader), 1);
  EXPECT_EQ(brickfs_volume_notify(writer, 2, 7), -ENOTCONN);
  EXPECT_EQ(brickfs_volume_reopen(writer), 1);
  ASSERT_EQ(brickfs_volume_notify(writer, 2, 7), 0);
  ASSERT_EQ(brickfs_volume_wait(reader, notices, 2, -1), 2);
  EXPECT_EQ(notices[0].news, BRICKFS_NEWS_UNKNOWN);
  EXPECT_EQ(notices[0].count, 0u);
  EXPECT_EQ(notices[1].news, 1u);
  EXPECT_EQ(brickfs_volume_wait(reader, notices, 2, 0), 0);
  ASSERT_EQ(brickfs_volume_notify(writer, 1, 6), 0);
  ASSERT_EQ(brickfs_volume_wait(reader, notices, 2, -1), 1);
  EXPECT_EQ(notices[0].news, 1u);
  EXPECT_EQ(notices[0].value, 6u);
}

TEST_F(LibraryNotices, SoManyWaitAtATime) {
  const OpenVolume volume(source(), "follow");
  std::vector<std::thread> waiters;
  std::atomic<int> woken{0};
  for (int i = 0; i < 8; ++i) {
    waiters.emplace_back([&] {
      brickfs_notice notice = notice_of(1);
      int result = 0;
      while ((result = brickfs_volume_wait(volume, &notice, 1, -1)) == -EUSERS) std::this_thread::yield();
      woken += result;
    });
  }
  brickfs_notice other = notice_of(2);
  int code = 0;
  for (int i = 0; i < 500 && code == 0; ++i) {
    code = brickfs_volume_wait(volume, &other, 1, 10);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));  // it may have had the last of them's place
  }
  EXPECT_EQ(code, -EUSERS);
  ASSERT_EQ(brickfs_volume_notify(volume, 1, 1), 0);
  for (std::thread& waiter : waiters) waiter.join();
  EXPECT_EQ(woken.load(), 8);
  EXPECT_EQ(brickfs_volume_wait(volume, &other, 1, 10), 0);
}

int open_blocks(const std::string& source, const char* options) {
  brickfs_volume* volume = nullptr;
  const int code = brickfs_volume_open(source.c_str(), options, &volume);
  if (code == 0) return brickfs_volume_close(volume);
  return code;
}

std::string tcp_source(const TcpTestBrick& brick) { return "tcp://127.0.0.1:" + std::to_string(brick.port()); }

TEST(LibraryVolume, OneWithFilesIsNotOpenedForBlocks) {
  TcpTestBrick brick(memory_config(64));
  const std::string source = tcp_source(brick);
  put(OpenFs(source), "file", "text");
  EXPECT_EQ(open_blocks(source, nullptr), -ENOTEMPTY);
  EXPECT_NE(std::string(brickfs_error()).find("has files"), std::string::npos) << brickfs_error();
  EXPECT_EQ(open_blocks(source, "ro"), 0);
  EXPECT_EQ(open_blocks(source, "follow"), 0);
  EXPECT_EQ(get(OpenFs(source), "file"), "text");  // who is refused does not keep the volume either
  EXPECT_EQ(open_blocks(source, "over-files"), 0);
}

// What a set keeps on its other bricks is known, too, and blocks that are no files' are nobody's business.
TEST(LibraryVolume, ABrickOfASetIsNotOpenedForBlocks) {
  TcpTestBrick first(memory_config(64));
  TcpTestBrick second(memory_config(64));
  const std::string other = tcp_source(second);
  put(OpenFs(tcp_source(first) + "+127.0.0.1:" + std::to_string(second.port())), "file", "text");
  EXPECT_EQ(open_blocks(tcp_source(first), nullptr), -ENOTEMPTY);
  EXPECT_EQ(open_blocks(other, nullptr), -ENOTEMPTY);
  TcpTestBrick third(memory_config(64));
  for (const uint64_t address : {uint64_t{0}, uint64_t{1} << 57, (uint64_t{1} << 57) + kBlock, uint64_t{5} << 57}) {
    OpenVolume volume(tcp_source(third), nullptr);
    const std::string text(4096, 'x');
    ASSERT_EQ(brickfs_volume_alloc(volume, address, 1), 0);
    ASSERT_EQ(brickfs_volume_map(volume, address, 1, 1), 0);
    ASSERT_EQ(brickfs_volume_write(volume, text.data(), text.size(), address, nullptr), 4096);
  }
  EXPECT_EQ(open_blocks(tcp_source(third), nullptr), 0);
}

}  // namespace
}  // namespace brickfs::testing
