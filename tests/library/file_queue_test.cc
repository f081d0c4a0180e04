// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <map>
#include <random>
#include <thread>

#include "tests/library/library_bed.h"
#include "tests/support/tcp_test_brick.h"

namespace brickfs::testing {
namespace {

class FileQueue : public ::testing::TestWithParam<unsigned> {
 protected:
  FileQueue() : brick_(memory_config(64)), fs_("tcp://127.0.0.1:" + std::to_string(brick_.port()), "workers=3") {
    EXPECT_EQ(brickfs_fs_queue(fs_, kDepth, GetParam(), &queue_), 0);
  }
  ~FileQueue() override { EXPECT_EQ(brickfs_queue_free(queue_), 0); }
  // Their results by their place; all are polled for.
  std::vector<int64_t> run(std::vector<brickfs_request> requests) {
    std::vector<int64_t> results(requests.size(), INT64_MIN);
    for (size_t i = 0; i < requests.size(); ++i) requests[i].user_data = i;
    size_t submitted = 0;
    size_t finished = 0;
    while (finished < requests.size()) {
      const int taken =
          brickfs_submit(queue_, requests.data() + submitted, static_cast<unsigned>(requests.size() - submitted));
      EXPECT_GE(taken, 0);
      submitted += static_cast<size_t>(taken);
      brickfs_completion done[5];
      const int count = brickfs_poll(queue_, done, 5, 1, 20'000);
      EXPECT_GT(count, 0);
      if (count <= 0) break;
      for (int i = 0; i < count; ++i) results[done[i].user_data] = done[i].result;
      finished += static_cast<size_t>(count);
    }
    return results;
  }

  static constexpr unsigned kDepth = 32;
  TcpTestBrick brick_;
  OpenFs fs_;
  brickfs_queue* queue_ = nullptr;
};

TEST_P(FileQueue, ReadsWritesAndSyncsOfSeveralFiles) {
  const OpenFile a(fs_, "a");
  const OpenFile b(fs_, "b");
  constexpr size_t kPages = 200;
  std::vector<std::string> pages;
  std::vector<brickfs_request> writes;
  for (size_t i = 0; i < kPages; ++i) pages.push_back(std::string(4096, static_cast<char>(i)));
  for (size_t i = 0; i < kPages; ++i) {
    writes.push_back({.operation = BRICKFS_WRITE,
                      .file = i % 2 ? a : b,
                      .offset = (i / 2) * 4096,
                      .data = pages[i].data(),
                      .length = 4096});
    if (i % 50 == 49) writes.push_back({.operation = BRICKFS_FSYNC, .file = a});
  }
  for (int round = 0; round < 2; ++round) {  // into holes, and over what is there
    for (const int64_t result : run(writes)) EXPECT_TRUE(result == 4096 || result == 0) << result;
  }
  std::vector<std::string> read(kPages, std::string(4096, '?'));
  std::vector<brickfs_request> reads;
  for (size_t i = 0; i < kPages; ++i) {
    reads.push_back({.operation = BRICKFS_READ,
                     .file = i % 2 ? a : b,
                     .offset = (i / 2) * 4096,
                     .data = read[i].data(),
                     .length = 4096});
  }
  for (const int64_t result : run(reads)) EXPECT_EQ(result, 4096);
  for (size_t i = 0; i < kPages; ++i) EXPECT_TRUE(read[i] == pages[i]) << i;
}

// Those over the same bytes are each done as a whole.
TEST_P(FileQueue, OverlappingWritesDoNotMix) {
  const OpenFile file(fs_, "file");
  std::vector<std::string> texts;
  std::vector<brickfs_request> writes;
  for (char c = 'a'; c < 'a' + 30; ++c) texts.push_back(std::string(20'000, c));
  for (int round = 0; round < 20; ++round) {
    writes.clear();
    for (std::string& text : texts)
      writes.push_back({.operation = BRICKFS_WRITE, .file = file, .data = text.data(), .length = text.size()});
    for (const int64_t result : run(writes)) EXPECT_EQ(result, 20'000);
    const std::string now = get(fs_, "file");
    EXPECT_EQ(now, std::string(20'000, now[0]));
  }
}

TEST_P(FileQueue, LargeAndAppendedOnes) {
  const OpenFile log(fs_, "log", O_RDWR | O_CREAT | O_APPEND | O_DSYNC);
  const OpenFile large(fs_, "large");
  std::string line = "line\n";
  std::string bytes(6 << 20, 'x');
  const brickfs_vector parts[2] = {{bytes.data(), 1000, nullptr}, {bytes.data() + 1000, bytes.size() - 1000, nullptr}};
  std::vector<brickfs_request> requests(10,
                                        {.operation = BRICKFS_WRITE, .file = log, .data = line.data(), .length = 5});
  requests.push_back({.operation = BRICKFS_WRITE, .count = 2, .file = large, .offset = 77, .vectors = parts});
  const auto results = run(requests);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(results[i], 5);
  EXPECT_EQ(results[10], 6 << 20);
  EXPECT_EQ(get(fs_, "log").size(), 50u);
  EXPECT_EQ(get(fs_, "large").substr(77), bytes);
}

TEST_P(FileQueue, ErrorsAreOfTheirRequests) {
  put(fs_, "file", "text");
  const OpenFile file(fs_, "file", O_RDONLY);
  const OpenFile directory(fs_, "/", O_RDONLY);
  char bytes[8];
  const auto results = run({{.operation = BRICKFS_READ, .file = file, .data = bytes, .length = 8},
                            {.operation = BRICKFS_WRITE, .file = file, .data = bytes, .length = 8},
                            {.operation = BRICKFS_READ, .file = directory, .data = bytes, .length = 8},
                            {.operation = BRICKFS_READ, .file = file, .offset = UINT64_MAX, .data = bytes, .length = 8},
                            {.operation = BRICKFS_READ, .data = bytes, .length = 8},
                            {.operation = 99, .file = file},
                            {.operation = BRICKFS_READ, .file = file, .data = nullptr, .length = 8},
                            {.operation = BRICKFS_READ, .file = file, .data = bytes, .length = 0}});
  const std::vector<int64_t> expected = {4, -EBADF, -EISDIR, -EINVAL, -EFAULT, -EINVAL, -EFAULT, 0};
  EXPECT_EQ(results, expected);
}

TEST_P(FileQueue, AFileInUseIsNotClosed) {
  brickfs_file* file = nullptr;
  ASSERT_EQ(brickfs_open(fs_, "file", O_RDWR | O_CREAT, 0644, &file), 0);
  char byte = 'x';
  brickfs_request request{.operation = BRICKFS_WRITE, .file = file, .data = &byte, .length = 1};
  ASSERT_EQ(brickfs_submit(queue_, &request, 1), 1);
  if (GetParam() == 0) {
    EXPECT_EQ(brickfs_close(file), -EBUSY);
  }
  EXPECT_EQ(brickfs_fs_close(fs_), -EBUSY);
  brickfs_completion done;
  EXPECT_EQ(brickfs_poll(queue_, &done, 1, 1, -1), 1);
  EXPECT_EQ(brickfs_close(file), 0);
}

TEST_P(FileQueue, FreedWithRequestsUnderWay) {
  const OpenFile file(fs_, "file");
  brickfs_queue* queue = nullptr;
  ASSERT_EQ(brickfs_fs_queue(fs_, 16, GetParam(), &queue), 0);
  std::string text(5000, 'x');
  std::vector<brickfs_request> requests;
  for (uint64_t i = 0; i < 16; ++i)
    requests.push_back(
        {.operation = BRICKFS_WRITE, .file = file, .offset = i * 5000, .data = text.data(), .length = text.size()});
  ASSERT_EQ(brickfs_submit(queue, requests.data(), 16), 16);
  EXPECT_EQ(brickfs_queue_free(queue), 0);
  EXPECT_EQ(get(fs_, "file"), std::string(16 * 5000, 'x'));
}

// Several threads with a queue each, and one with plain calls, on the same file system.
TEST_P(FileQueue, QueuesOfSeveralThreads) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      const std::string name = "file" + std::to_string(t);
      const OpenFile file(fs_, name.c_str());
      brickfs_queue* queue = nullptr;
      ASSERT_EQ(brickfs_fs_queue(fs_, 8, GetParam(), &queue), 0);
      std::minstd_rand random(static_cast<unsigned>(t));
      std::string model(64 * 1024, '\0');
      std::vector<std::string> bytes(8);
      for (int round = 0; round < 50; ++round) {
        std::vector<brickfs_request> requests;
        for (uint64_t i = 0; i < 8; ++i) {  // each in an eighth of its own
          const uint64_t offset = i * 8192 + random() % 4096;
          bytes[i] = std::string(1 + random() % 4000, static_cast<char>('a' + random() % 26));
          model.replace(offset, bytes[i].size(), bytes[i]);
          requests.push_back({.operation = BRICKFS_WRITE,
                              .file = file,
                              .offset = offset,
                              .data = bytes[i].data(),
                              .length = bytes[i].size()});
        }
        ASSERT_EQ(brickfs_submit(queue, requests.data(), 8), 8);
        brickfs_completion done[8];
        ASSERT_EQ(brickfs_poll(queue, done, 8, 8, -1), 8);
        for (const brickfs_completion& completion : done) EXPECT_GT(completion.result, 0);
      }
      const std::string now = get(fs_, name.c_str());
      EXPECT_TRUE(now == model.substr(0, now.size()));
      EXPECT_EQ(brickfs_queue_free(queue), 0);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_P(FileQueue, APollThatWaitsForNothingGetsThereToo) {
  const OpenFile file(fs_, "file");
  std::string text(20'000, 'x');
  ASSERT_EQ(brickfs_pwrite(file, text.data(), text.size(), 0), 20'000);
  char bytes[8][16] = {};
  std::vector<brickfs_request> requests;
  for (auto& each : bytes)
    requests.push_back({.operation = BRICKFS_READ, .file = file, .offset = 7, .data = each, .length = 16});
  ASSERT_EQ(brickfs_submit(queue_, requests.data(), 8), 8);
  int finished = 0;
  for (int i = 0; i < 10'000 && finished < 8; ++i) {
    brickfs_completion done[8];
    const int count = brickfs_poll(queue_, done, 8, 0, -1);
    ASSERT_GE(count, 0);
    for (int one = 0; one < count; ++one) EXPECT_EQ(done[one].result, 16);
    finished += count;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(finished, 8);
  for (auto& each : bytes) EXPECT_EQ(each[15], 'x');
}

TEST_P(FileQueue, ABufferIsNotFreedUnderARequest) {
  const OpenFile file(fs_, "file");
  brickfs_buffer* buffer = nullptr;
  ASSERT_EQ(brickfs_fs_buffer(fs_, nullptr, 8192, &buffer), 0);
  void* const data = brickfs_buffer_data(buffer);
  ASSERT_EQ(brickfs_pwrite(file, data, 8192, 0), 8192);
  const brickfs_vector vectors[2] = {{data, 4096, buffer}, {static_cast<char*>(data) + 4096, 4096, buffer}};
  const std::vector<brickfs_request> requests = {
      {.operation = BRICKFS_READ, .file = file, .data = data, .length = 4096, .buffer = buffer},
      {.operation = BRICKFS_WRITE, .count = 2, .file = file, .vectors = vectors},
      {.operation = BRICKFS_READ, .file = file, .data = data, .length = 8193, .buffer = buffer}};  // not within it
  ASSERT_EQ(brickfs_submit(queue_, requests.data(), 3), 3);
  if (GetParam() == 0) {
    EXPECT_EQ(brickfs_buffer_free(buffer), -EBUSY);
  }
  brickfs_completion done[3];
  ASSERT_EQ(brickfs_poll(queue_, done, 3, 3, -1), 3);
  EXPECT_EQ(brickfs_buffer_free(buffer), 0);
}

INSTANTIATE_TEST_SUITE_P(Ways, FileQueue, ::testing::Values(0u, BRICKFS_QUEUE_BACKGROUND),
                         [](const auto& info) { return info.param == 0 ? "Polled" : "Background"; });

}  // namespace
}  // namespace brickfs::testing
