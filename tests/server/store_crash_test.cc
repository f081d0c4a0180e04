// SPDX-License-Identifier: Apache-2.0
// A durable brick that is killed, at any instant: what it had committed is there, and its store opens.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <random>
#include <thread>

#include "server/service/embedded_brick.h"
#include "tests/support/brick_contract.h"
#include "tests/support/crash_device.h"

namespace brickfs::testing {
namespace {

constexpr uint64_t kMemoryBlocks = 4;
constexpr uint64_t kBlocks = 12;
constexpr uint64_t kStampBytes = 64;  // each block begins with its count of commits, over and over

// What the child has committed, told to the parent through shared memory.
struct Progress {
  std::atomic<uint64_t> begun[kBlocks];
  std::atomic<uint64_t> committed[kBlocks];
};

std::shared_ptr<BrickService> open_service(const std::string& path) {
  return open_service_on(path, kMemoryBlocks, kBlocks);
}

OpenRequest request() {
  OpenRequest request;
  request.client = ClientId{1};
  return request;
}

std::vector<std::byte> stamps(uint64_t value) {
  std::vector<std::byte> bytes(kStampBytes);
  for (uint64_t i = 0; i < kStampBytes; i += sizeof(value)) std::memcpy(&bytes[i], &value, sizeof(value));
  return bytes;
}

// Stamps blocks and commits, until killed; frees one and allocates it again now and then.
[[noreturn]] void run_child(const std::string& path, Progress& progress, unsigned seed) {
  auto brick = make_embedded_brick(open_service(path));
  if (!brick->open(request(), nullptr).ok()) _exit(2);
  std::mt19937 random(seed);
  while (true) {
    const uint64_t number = random() % kBlocks;
    const bool renewed = random() % 8 == 0;
    const uint64_t value = progress.begun[number].load() + 1;
    progress.begun[number].store(value);
    if (renewed) static_cast<void>(brick->free(blocks(number)));
    const int made = brick->alloc(blocks(number)).code();
    if (made != 0 && made != EEXIST) _exit(3);
    const auto handles = brick->map(blocks(number), Access::kReadWrite);
    if (!handles.ok() || !write(*brick, handles->front(), 0, stamps(value)).ok()) _exit(4);
    const CommitRange range{number * kBlockBytes, kStampBytes, false};
    if (!brick->commit({&range, 1}).ok()) _exit(5);
    progress.committed[number].store(value);
    if (!brick->unmap(blocks(number)).ok()) _exit(6);
  }
}

void check_store(const std::string& path, const Progress& progress) {
  auto brick = make_embedded_brick(open_service(path));
  ASSERT_TRUE(brick->open(request(), nullptr).ok());
  for (uint64_t number = 0; number < kBlocks; ++number) {
    const uint64_t committed = progress.committed[number].load();
    const uint64_t begun = progress.begun[number].load();
    const auto handles = brick->map(blocks(number), Access::kRead);
    if (!handles.ok()) {
      EXPECT_TRUE(committed == 0 || begun > committed) << "block " << number << " is gone";
      continue;
    }
    const auto found = read(*brick, handles->front(), 0, kStampBytes);
    uint64_t value = 0;
    std::memcpy(&value, found.data(), sizeof(value));
    EXPECT_EQ(found, stamps(value));
    EXPECT_TRUE((value >= committed && value <= begun) || (value == 0 && begun > committed))
        << "block " << number << ": " << value << " is not from " << committed << " to " << begun;
    EXPECT_EQ(read(*brick, handles->front(), kStampBytes, 4096), std::vector<std::byte>(4096));
    ASSERT_TRUE(brick->unmap(blocks(number)).ok());
  }
}

TEST(StoreCrash, KilledAnywhereUnderLoadItKeepsWhatItCommitted) {
  const TemporaryDirectory directory;
  const std::string path = directory.path("store");
  void* const shared = mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(shared, MAP_FAILED);
  auto& progress = *new (shared) Progress{};
  const unsigned seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  for (int round = 0; round < 12 && !::testing::Test::HasFailure(); ++round) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) run_child(path, progress, seed + static_cast<unsigned>(round));
    std::this_thread::sleep_for(std::chrono::microseconds(20'000 + random() % 150'000));
    kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the child gave up with " << WEXITSTATUS(status);
    check_store(path, progress);
  }
  uint64_t commits = 0;
  for (const auto& count : progress.committed) commits += count.load();
  EXPECT_GT(commits, 0u);
  munmap(shared, sizeof(Progress));
}

// The store file as a crash would leave it at this moment.
void expect_copy_opens_with(const std::string& path, const std::vector<BlockRange>& expected, uint64_t number,
                            uint64_t value) {
  const std::string copy = path + ".copy";
  std::filesystem::copy_file(path, copy, std::filesystem::copy_options::overwrite_existing);
  auto brick = make_embedded_brick(open_service(copy));
  ASSERT_TRUE(brick->open(request(), nullptr).ok());
  EXPECT_EQ(brick->list(BlockAddress{0})->extents, expected);
  if (expected.empty()) return;
  const auto handle = brick->map(blocks(number), Access::kRead);
  ASSERT_TRUE(handle.ok());
  EXPECT_EQ(read(*brick, handle->front(), 0, kStampBytes), stamps(value));
}

TEST(StoreCrash, EveryStepLeavesAStoreThatOpens) {
  const TemporaryDirectory directory;
  const std::string path = directory.path("store");
  auto brick = make_embedded_brick(open_service(path));
  ASSERT_TRUE(brick->open(request(), nullptr).ok());
  expect_copy_opens_with(path, {}, 0, 0);
  ASSERT_TRUE(brick->alloc(blocks(0, 2)).ok());
  expect_copy_opens_with(path, {blocks(0, 2)}, 1, 0);
  const Handle handle = brick->map(blocks(1), Access::kReadWrite)->front();
  ASSERT_TRUE(write(*brick, handle, 0, stamps(1)).ok());
  expect_copy_opens_with(path, {blocks(0, 2)}, 1, 0);  // written, not committed
  const CommitRange range{kBlockBytes, kStampBytes, false};
  ASSERT_TRUE(brick->commit({&range, 1}).ok());
  expect_copy_opens_with(path, {blocks(0, 2)}, 1, 1);
  ASSERT_TRUE(write(*brick, handle, 0, stamps(2)).ok());
  expect_copy_opens_with(path, {blocks(0, 2)}, 1, 1);
  ASSERT_TRUE(brick->free(blocks(1)).ok());
  expect_copy_opens_with(path, {blocks(0)}, 0, 0);
  ASSERT_TRUE(brick->alloc(blocks(1)).ok());
  expect_copy_opens_with(path, {blocks(0, 2)}, 1, 0);
}

// A writer stamps blocks 0 and 1, and goes without a word. The next one.
std::unique_ptr<Brick> after_a_lost_writer(const std::shared_ptr<BrickService>& service) {
  auto brick = make_embedded_brick(service);
  EXPECT_TRUE(brick->open(request(), nullptr).ok());
  EXPECT_TRUE(brick->alloc(blocks(0, kBlocks)).ok());
  for (uint64_t number = 0; number < 2; ++number) {
    const auto handles = brick->map(blocks(number), Access::kReadWrite);
    EXPECT_TRUE(write(*brick, handles->front(), 0, stamps(1)).ok());
  }
  brick.reset();
  brick = make_embedded_brick(service);
  EXPECT_EQ(brick->open(request(), nullptr)->suspect_blocks, 2u);
  return brick;
}

void need_all_memory(Brick& brick) {
  ASSERT_TRUE(brick.map(blocks(kBlocks - kMemoryBlocks, kMemoryBlocks), Access::kRead).ok());
  ASSERT_TRUE(brick.unmap(blocks(kBlocks - kMemoryBlocks, kMemoryBlocks)).ok());
}

void expect_reads(Brick& brick, uint64_t number, uint64_t value) {
  const auto handles = brick.map(blocks(number), Access::kRead);
  ASSERT_TRUE(handles.ok());
  EXPECT_EQ(read(brick, handles->front(), 0, kStampBytes), stamps(value));
  ASSERT_TRUE(brick.unmap(blocks(number)).ok());
}

Status commit(Brick& brick, uint64_t number, uint64_t length_bytes = kBlockBytes) {
  const CommitRange range{number * kBlockBytes, length_bytes, false};
  return brick.commit({&range, 1});
}

TEST(StoreCrash, ALostWritersBlocksReachTheirSlotsOnlyByCommit) {
  const TemporaryDirectory directory;
  const std::string path = directory.path("store");
  const auto brick = after_a_lost_writer(open_service(path));
  expect_copy_opens_with(path, {blocks(0, kBlocks)}, 0, 0);
  need_all_memory(*brick);
  for (uint64_t number = 0; number < 2; ++number) {
    expect_copy_opens_with(path, {blocks(0, kBlocks)}, number, 0);
    expect_reads(*brick, number, 1);
  }
  need_all_memory(*brick);
  ASSERT_TRUE(commit(*brick, 0).ok());               // of a block that is not in memory
  ASSERT_TRUE(commit(*brick, 1, kStampBytes).ok());  // of its part
  expect_copy_opens_with(path, {blocks(0, kBlocks)}, 0, 1);
  expect_copy_opens_with(path, {blocks(0, kBlocks)}, 1, 1);
  const Handle handle = brick->map(blocks(1), Access::kReadWrite)->front();
  ASSERT_TRUE(write(*brick, handle, 0, stamps(2)).ok());
  ASSERT_TRUE(commit(*brick, 1).ok());
  ASSERT_TRUE(brick->unmap(blocks(1)).ok());
  need_all_memory(*brick);
  expect_reads(*brick, 0, 1);
  expect_reads(*brick, 1, 2);
  expect_copy_opens_with(path, {blocks(0, kBlocks)}, 1, 2);
}

TEST(StoreCrash, WhatALostWriterLeftIsKeptWhenTheBrickIsStopped) {
  const TemporaryDirectory directory;
  const std::string path = directory.path("store");
  auto service = open_service(path);
  auto brick = after_a_lost_writer(service);
  ASSERT_TRUE(commit(*brick, 1).ok());
  need_all_memory(*brick);
  brick.reset();
  ASSERT_TRUE(service->stop().ok());
  service.reset();
  for (uint64_t number = 0; number < 2; ++number) expect_copy_opens_with(path, {blocks(0, kBlocks)}, number, 1);
  service = open_service(path);
  brick = make_embedded_brick(service);
  EXPECT_EQ(brick->open(request(), nullptr)->suspect_blocks, 0u);
  for (uint64_t number = 0; number < 2; ++number) {
    expect_reads(*brick, number, 1);
    expect_copy_opens_with(path, {blocks(0, kBlocks)}, number, 1);
  }
}

// A disk that gets full when a writer is lost.
class FullStore : public ::testing::Test {
 protected:
  static constexpr uint64_t kPage = 4096;

  void start() {
    BrickConfig config;
    config.memory_bytes = kMemoryBlocks * kBlockBytes;
    config.store_path = "disk";
    config.store_bytes = kBlocks * kBlockBytes;
    config.volumes = {{.name = "other", .quota_bytes = {}}};
    std::string why;
    auto service = BrickService::open(config, std::make_unique<CrashDevice>(disk_), &why);
    ASSERT_TRUE(service.ok()) << why;
    service_ = std::shared_ptr<BrickService>(*std::move(service));
  }
  void leave_room(uint64_t bytes) { disk_.room_bytes -= CrashDevice(disk_).room_bytes() - bytes; }
  uint64_t room() { return CrashDevice(disk_).room_bytes(); }

  CrashDisk disk_{DiskImage()};
  std::shared_ptr<BrickService> service_;
};

// The blocks are one client's, who knows what refers to what: some of them alone are worth nothing.
TEST_F(FullStore, OfWhatALostWriterLeftAStopKeepsAllOrNothing) {
  disk_.room_bytes = 2 * kBlocks * kBlockBytes;
  start();
  auto other = make_embedded_brick(service_);
  OpenRequest to_other = request();
  to_other.volume = "other";
  ASSERT_TRUE(other->open(to_other, nullptr).ok());
  ASSERT_TRUE(other->alloc(blocks(0)).ok());
  ASSERT_TRUE(write(*other, other->map(blocks(0), Access::kReadWrite)->front(), 0, stamps(1)).ok());
  other.reset();
  {
    auto brick = make_embedded_brick(service_);
    ASSERT_TRUE(brick->open(request(), nullptr).ok());
    ASSERT_TRUE(brick->alloc(blocks(0, 2)).ok());
    for (uint64_t number = 0; number < 2; ++number) {
      ASSERT_TRUE(
          write(*brick, brick->map(blocks(number), Access::kReadWrite)->front(), 0, pattern(3 * kPage, 1)).ok());
    }
  }
  leave_room(6 * kPage);  // 1 for the other's block, 3 for one of these two, 1 for the list
  EXPECT_FALSE(service_->stop().ok());
  service_.reset();
  disk_.room_bytes *= 2;
  start();
  other = make_embedded_brick(service_);
  ASSERT_TRUE(other->open(to_other, nullptr).ok());
  expect_reads(*other, 0, 1);
  const auto brick = make_embedded_brick(service_);
  ASSERT_TRUE(brick->open(request(), nullptr).ok());
  for (uint64_t number = 0; number < 2; ++number) expect_reads(*brick, number, 0);
}

TEST_F(FullStore, MemoryBecomesFreeAsFarAsThereIsRoom) {
  disk_.room_bytes = 2 * kBlocks * kBlockBytes;
  start();
  auto brick = make_embedded_brick(service_);
  ASSERT_TRUE(brick->open(request(), nullptr).ok());
  ASSERT_TRUE(brick->alloc(blocks(0, kBlocks)).ok());
  for (uint64_t number = 0; number < kMemoryBlocks; ++number) {
    const uint64_t length = number == 0 ? 3 * kPage : kStampBytes;  // the first one needs most
    ASSERT_TRUE(write(*brick, brick->map(blocks(number), Access::kReadWrite)->front(), 0, pattern(length, 1)).ok());
  }
  brick.reset();
  leave_room(2 * kPage);
  brick = make_embedded_brick(service_);
  ASSERT_TRUE(brick->open(request(), nullptr).ok());
  EXPECT_TRUE(eventually([&] { return brick->map(blocks(kMemoryBlocks, 2), Access::kRead).ok(); }))
      << "there are two that need a page each";
  EXPECT_EQ(room(), 0u);
  EXPECT_EQ(brick->map(blocks(kMemoryBlocks + 2), Access::kRead).code(), ENOMEM);
  ASSERT_TRUE(brick->unmap(blocks(kMemoryBlocks, 2)).ok());
  for (uint64_t number = 0; number < kMemoryBlocks; ++number) ASSERT_TRUE(commit(*brick, number).ok());
  EXPECT_EQ(room(), 2 * kPage) << "shadows that were settled, and the part of one that did not fit, take none";
  need_all_memory(*brick);
}

}  // namespace
}  // namespace brickfs::testing
