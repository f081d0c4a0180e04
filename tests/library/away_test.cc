// SPDX-License-Identifier: Apache-2.0
// A volume whose brick is away: what waits for it, and how that is ended.
#include <fcntl.h>
#include <sys/stat.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "tests/library/library_bed.h"
#include "tests/support/tcp_test_brick.h"

namespace brickfs::testing {
namespace {

class LibraryAway : public ::testing::Test {
 protected:
  void open(const char* options) {
    ASSERT_EQ(brickfs_fs_open(("tcp://127.0.0.1:" + std::to_string(brick_->port())).c_str(), options, &fs_), 0)
        << brickfs_error();
    ASSERT_EQ(brickfs_mkdir(fs_, "kept", 0755), 0);
    ASSERT_EQ(brickfs_fs_sync(fs_), 0);
  }
  std::chrono::steady_clock::duration time_of_close(int expected) const {
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_EQ(brickfs_fs_close(fs_), expected);
    return std::chrono::steady_clock::now() - begin;
  }

  std::unique_ptr<TcpTestBrick> brick_ = std::make_unique<TcpTestBrick>(memory_config(64));
  brickfs_fs* fs_ = nullptr;
};

TEST_F(LibraryAway, ClosingEndsAndSaysWhatIsNotCommitted) {
  open("linger=1");
  brick_.reset();
  ASSERT_EQ(brickfs_mkdir(fs_, "lost", 0755), 0);
  EXPECT_LT(time_of_close(-ETIMEDOUT), std::chrono::seconds(30));
  EXPECT_NE(std::string(brickfs_error()).find("not committed"), std::string::npos) << brickfs_error();
}

TEST_F(LibraryAway, ClosingWithoutAnythingToCommitIsWell) {
  open(nullptr);
  brick_.reset();
  EXPECT_LT(time_of_close(0), std::chrono::seconds(30));
  EXPECT_STREQ(brickfs_error(), "");
}

TEST_F(LibraryAway, CallsEndWithThePatienceOfTheirThread) {
  open("linger=1");
  brickfs_patience* patience = nullptr;
  brickfs_patience* other = nullptr;
  ASSERT_EQ(brickfs_patience_new(&patience), 0);
  ASSERT_EQ(brickfs_patience_new(&other), 0);
  brick_.reset();
  ASSERT_EQ(brickfs_patience_begin(patience, 200), 0);
  EXPECT_EQ(brickfs_patience_begin(other, 1), -EBUSY);
  EXPECT_EQ(brickfs_patience_free(patience), -EBUSY);
  ASSERT_EQ(brickfs_mkdir(fs_, "lost", 0755), 0) << "nothing to wait for";
  EXPECT_EQ(brickfs_fs_sync(fs_), -ETIMEDOUT);
  struct stat stat {};
  EXPECT_EQ(brickfs_stat(fs_, "lost", 0, &stat), 0) << "nothing to wait for";
  std::thread([&] { EXPECT_EQ(brickfs_patience_end(patience), -EINVAL); }).join();
  EXPECT_EQ(brickfs_patience_end(patience), 0);

  ASSERT_EQ(brickfs_patience_begin(patience, -1), 0);
  std::thread cancels([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    EXPECT_EQ(brickfs_patience_cancel(patience), 0);
  });
  EXPECT_EQ(brickfs_fs_sync(fs_), -ECANCELED);
  cancels.join();
  EXPECT_EQ(brickfs_patience_end(patience), 0);
  EXPECT_EQ(brickfs_patience_free(patience), 0);
  EXPECT_EQ(brickfs_patience_free(other), 0);
  EXPECT_EQ(brickfs_patience_begin(nullptr, 1), -EFAULT);
  time_of_close(-ETIMEDOUT);
}

// Which a poll that waits for nothing has given the requests to.
TEST_F(LibraryAway, APollWaitsForAnotherThreadWithThePatienceOfItsOwn) {
  open("linger=1");
  auto file = std::make_unique<OpenFile>(fs_, "file");
  std::string bytes(8192, 'x');
  ASSERT_EQ(brickfs_pwrite(*file, bytes.data(), bytes.size(), 0), 8192);
  brickfs_queue* queue = nullptr;
  ASSERT_EQ(brickfs_fs_queue(fs_, 4, 0, &queue), 0);
  brickfs_patience* patience = nullptr;
  ASSERT_EQ(brickfs_patience_new(&patience), 0);
  brick_.reset();
  const brickfs_request request{.operation = BRICKFS_READ, .file = *file, .data = bytes.data(), .length = 4096};
  brickfs_completion done{};
  ASSERT_EQ(brickfs_submit(queue, &request, 1), 1);
  ASSERT_EQ(brickfs_poll(queue, &done, 1, 0, 0), 0);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));  // until that thread has taken it
  ASSERT_EQ(brickfs_patience_begin(patience, 100), 0);
  EXPECT_EQ(brickfs_poll(queue, &done, 1, 1, -1), -ETIMEDOUT);
  ASSERT_EQ(brickfs_patience_end(patience), 0);
  ASSERT_EQ(brickfs_fs_abandon(fs_), 0);
  ASSERT_EQ(brickfs_poll(queue, &done, 1, 1, -1), 1) << "it is under way still";
  EXPECT_LT(done.result, 0);
  EXPECT_EQ(brickfs_queue_free(queue), 0);
  EXPECT_EQ(brickfs_patience_free(patience), 0);
  file.reset();
  EXPECT_NE(brickfs_fs_close(fs_), 0);
}

TEST_F(LibraryAway, GivenUpItEndsAllThatWaits) {
  open("linger=1000");
  auto file = std::make_unique<OpenFile>(fs_, "file");
  auto other = std::make_unique<OpenFile>(fs_, "file");
  ASSERT_EQ(brickfs_lock(*file, F_WRLCK, 0, 0, 1), 0);
  brick_.reset();
  ASSERT_EQ(brickfs_mkdir(fs_, "lost", 0755), 0);
  std::thread syncs([&] { EXPECT_NE(brickfs_fs_sync(fs_), 0); });
  std::thread locks([&] { EXPECT_EQ(brickfs_lock(*other, F_WRLCK, 0, 0, 1), -ECANCELED); });
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_EQ(brickfs_fs_abandon(fs_), 0);
  syncs.join();
  locks.join();
  struct stat stat {};
  EXPECT_EQ(brickfs_stat(fs_, "kept", 0, &stat), -ECANCELED);
  EXPECT_EQ(brickfs_fs_abandon(nullptr), -EFAULT);
  file.reset();
  other.reset();
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_NE(brickfs_fs_close(fs_), 0);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
}

}  // namespace
}  // namespace brickfs::testing
