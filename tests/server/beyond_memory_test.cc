// SPDX-License-Identifier: Apache-2.0
// A durable brick with more blocks than memory, under threads that map, write, free and allocate at random.
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <thread>

#include "tests/support/brick_contract.h"

namespace brickfs::testing {
namespace {

constexpr uint64_t kResidentBlocks = 4;
constexpr uint64_t kStoredBlocks = 32;
constexpr uint64_t kThreads = 3;

// One thread's own blocks, each of which holds its counter at a few places.
class Worker {
 public:
  Worker(Brick& brick, uint64_t first, uint64_t count, unsigned seed)
      : brick_(brick), first_(first), values_(count, 0), random_(seed) {}

  void run(int steps) {
    for (int i = 0; i < steps && !::testing::Test::HasFatalFailure(); ++i) step();
  }

 private:
  static constexpr uint64_t kPlaces[] = {0, 4096, kBlockBytes / 2 - 4, kBlockBytes - 8};

  void step() {
    const uint64_t index = random_() % values_.size();
    const uint64_t number = first_ + index;
    if (random_() % 10 == 0) {
      ASSERT_TRUE(brick_.free(blocks(number)).ok());
      const Status made = brick_.alloc(blocks(number));
      ASSERT_TRUE(made.ok()) << made.code();
      values_[index] = 0;
    }
    const bool writes = random_() % 2 == 0;
    auto handles = brick_.map(blocks(number), writes ? Access::kReadWrite : Access::kRead);
    while (!handles.ok()) {
      ASSERT_EQ(handles.code(), ENOMEM);
      std::this_thread::yield();
      handles = brick_.map(blocks(number), writes ? Access::kReadWrite : Access::kRead);
    }
    for (const uint64_t place : kPlaces) {
      ASSERT_EQ(value_at(handles->front(), place), values_[index]) << "block " << number << " at " << place;
    }
    if (writes) {
      ++values_[index];
      std::vector<std::byte> bytes(sizeof(uint64_t));
      std::memcpy(bytes.data(), &values_[index], sizeof(uint64_t));
      for (const uint64_t place : kPlaces) ASSERT_TRUE(write(brick_, handles->front(), place, bytes).ok());
    }
    const CommitRange range{number * kBlockBytes, 4096, false};
    if (random_() % 5 == 0) {
      ASSERT_TRUE(brick_.commit({&range, 1}).ok());
    }
    ASSERT_TRUE(brick_.unmap(blocks(number)).ok());
  }

  uint64_t value_at(const Handle& handle, uint64_t place) {
    const auto bytes = read(brick_, handle, place, sizeof(uint64_t));
    uint64_t value = 0;
    std::memcpy(&value, bytes.data(), sizeof(value));
    return value;
  }

  Brick& brick_;
  const uint64_t first_;
  std::vector<uint64_t> values_;
  std::mt19937 random_;
};

TEST(BeyondMemory, EveryBlockKeepsItsBytesWhileOthersComeAndGo) {
  const auto brick = make_embedded_file(kResidentBlocks, kStoredBlocks, {});
  const auto client = brick->connect();
  OpenRequest request;
  request.client = ClientId{1};
  ASSERT_TRUE(client->open(request, nullptr).ok());
  ASSERT_TRUE(client->alloc(blocks(0, kStoredBlocks)).ok());
  const unsigned seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < kThreads; ++i) {
    const uint64_t count = kStoredBlocks / kThreads;
    threads.emplace_back([&, i] { Worker(*client, i * count, count, seed + i).run(300); });
  }
  for (std::thread& thread : threads) thread.join();
  const auto stat = client->stat();
  ASSERT_TRUE(stat.ok());
  EXPECT_EQ(stat->volume_mapped_blocks, 0u);
  EXPECT_LE(stat->resident_blocks, kResidentBlocks);
  EXPECT_EQ(stat->volume_used_blocks, kStoredBlocks);
  ASSERT_TRUE(client->free(blocks(0, kStoredBlocks)).ok());
  EXPECT_EQ(client->stat()->resident_blocks, 0u);
}

}  // namespace
}  // namespace brickfs::testing
