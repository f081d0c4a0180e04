// SPDX-License-Identifier: Apache-2.0
// The contract of transport/brick/brick.h, for every implementation of it: data calls, and what kills a handle.
#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <thread>

#include "tests/support/brick_contract.h"
#include "transport/brick/limits.h"

namespace brickfs::testing {
namespace {

class BrickData : public BrickContract {
 protected:
  // A client with `count` blocks from 0 on, mapped for writing.
  void start_mapped(uint64_t count) {
    start(count, count);
    client_ = open(1);
    ASSERT_TRUE(client_->alloc(blocks(0, count)).ok());
    auto handles = client_->map(blocks(0, count), Access::kReadWrite);
    ASSERT_TRUE(handles.ok());
    handles_ = *std::move(handles);
  }
  void TearDown() override { client_.reset(); }

  std::unique_ptr<Brick> client_;
  std::vector<Handle> handles_;
};
BRICK_CONTRACT_FOR_EVERY_KIND(BrickData);

TEST_P(BrickData, ATransferGathersAndScattersOverBlocks) {
  start_mapped(2);
  const Handle& handle = handles_.front();
  const uint64_t offset = handle.blocks.count == 2 ? kBlockBytes - 3000 : 777;
  std::vector<std::byte> from = pattern(limits::kSlicesPerTransfer * 211, 7);
  std::vector<LocalSlice> slices;
  for (size_t i = 0; i < limits::kSlicesPerTransfer; ++i) slices.push_back({&from[i * 211], 211, 0});
  Batch batch;
  batch.transfers.push_back({Direction::kWrite, handle, offset, slices});
  client_->submit(batch);
  ASSERT_TRUE(client_->wait(batch).ok());
  EXPECT_EQ(read(*client_, handle, offset, from.size()), from);

  std::vector<std::byte> into(from.size());
  slices = {{into.data(), 1, 0}, {&into[1], 4000, 0}, {&into[4001], static_cast<uint32_t>(into.size() - 4001), 0}};
  Batch back;
  back.transfers.push_back({Direction::kRead, handle, offset, slices});
  client_->submit(back);
  ASSERT_TRUE(client_->wait(back).ok());
  EXPECT_EQ(into, from);
}

TEST_P(BrickData, TheLargestTransferWorks) {
  start_mapped(3);
  for (const Handle& handle : handles_) {
    const uint64_t size = std::min(limits::kTransferBytes, handle.blocks.count * kBlockBytes);
    ASSERT_TRUE(write(*client_, handle, 0, pattern(size, 3)).ok());
    EXPECT_EQ(read(*client_, handle, 0, size), pattern(size, 3));
  }
}

TEST_P(BrickData, RegisteredMemoryWorksLikeAnyOther) {
  start_mapped(1);
  std::vector<std::byte> memory = pattern(1 << 16, 5);
  const auto registered = client_->register_memory(memory);
  ASSERT_TRUE(registered.ok());
  const LocalSlice slice{memory.data(), 1 << 16, registered->local_key()};
  Batch batch;
  batch.transfers.push_back({Direction::kWrite, handles_.front(), 512, {&slice, 1}});
  client_->submit(batch);
  ASSERT_TRUE(client_->wait(batch).ok());
  EXPECT_EQ(read(*client_, handles_.front(), 512, 1 << 16), pattern(1 << 16, 5));
}

TEST_P(BrickData, ABatchMayHaveManyTransfers) {
  start_mapped(1);
  std::vector<std::byte> from = pattern(limits::kTransfersPerBatch * 64, 11);
  std::vector<LocalSlice> slices(limits::kTransfersPerBatch);
  Batch batch;
  for (size_t i = 0; i < slices.size(); ++i) {
    slices[i] = {&from[i * 64], 64, 0};
    batch.transfers.push_back({Direction::kWrite, handles_.front(), i * 128, {&slices[i], 1}});
  }
  client_->submit(batch);
  ASSERT_TRUE(client_->wait(batch).ok());
  for (size_t i = 0; i < slices.size(); i += 37) {
    EXPECT_EQ(read(*client_, handles_.front(), i * 128, 64), std::vector(&from[i * 64], &from[i * 64] + 64));
    EXPECT_EQ(read(*client_, handles_.front(), i * 128 + 64, 64), std::vector<std::byte>(64));
  }
  batch.transfers.push_back(batch.transfers.back());
  client_->submit(batch);
  EXPECT_EQ(client_->wait(batch).code(), EINVAL);
}

TEST_P(BrickData, ABatchWithoutTransfersCompletesAtOnce) {
  start_mapped(1);
  Batch batch;
  client_->submit(batch);
  EXPECT_TRUE(client_->wait(batch).ok());
}

TEST_P(BrickData, ACallbackComesOnceForEachBatch) {
  start_mapped(1);
  std::atomic<int> calls = 0;
  const auto count = [](Batch& batch, void* context) {
    EXPECT_TRUE(batch.complete());
    EXPECT_TRUE(batch.status().ok());
    static_cast<std::atomic<int>*>(context)->fetch_add(1);
  };
  std::vector<std::byte> from = pattern(4096, 2);
  const LocalSlice slice{from.data(), 4096, 0};
  std::deque<Batch> batches;
  for (uint64_t i = 0; i < 50; ++i) {
    Batch& batch = batches.emplace_back(count, &calls);
    for (uint64_t part = 0; part < 3; ++part) {
      batch.transfers.push_back({Direction::kWrite, handles_.front(), 8192 * (3 * i + part), {&slice, 1}});
    }
    client_->submit(batch);
  }
  ASSERT_TRUE(eventually([&] { return calls.load() == 50; }));
  for (uint64_t i = 0; i < 150; ++i) EXPECT_EQ(read(*client_, handles_.front(), 8192 * i, 4096), from);
}

TEST_P(BrickData, ImpossibleTransfersAreEINVALAndHarmNothing) {
  start_mapped(1);
  const Handle& handle = handles_.front();
  std::vector<std::byte> bytes = pattern(limits::kTransferBytes + 1, 1);
  EXPECT_EQ(transfer(*client_, Direction::kWrite, handle, 0, {}).code(), EINVAL);
  EXPECT_EQ(transfer(*client_, Direction::kWrite, handle, 0, bytes).code(), EINVAL);
  EXPECT_EQ(transfer(*client_, Direction::kWrite, handle, kBlockBytes - 1, std::span(bytes).first(2)).code(), EINVAL);
  EXPECT_EQ(transfer(*client_, Direction::kRead, handle, UINT64_MAX, std::span(bytes).first(2)).code(), EINVAL);
  std::vector<LocalSlice> slices(limits::kSlicesPerTransfer + 1, LocalSlice{bytes.data(), 1, 0});
  Batch batch;
  batch.transfers.push_back({Direction::kWrite, handle, 0, slices});
  client_->submit(batch);
  EXPECT_EQ(client_->wait(batch).code(), EINVAL);
  EXPECT_EQ(read(*client_, handle, 0, kBlockBytes), std::vector<std::byte>(kBlockBytes));
}

TEST_P(BrickData, AHandleForReadingDoesNotWrite) {
  start_mapped(1);
  const Handle reading = map_one(*client_, 0, Access::kRead);
  EXPECT_TRUE(is_dead_handle(write(*client_, reading, 0, pattern(64, 1))));
  EXPECT_EQ(read(*client_, reading, 0, 64), std::vector<std::byte>(64));
  EXPECT_TRUE(write(*client_, handles_.front(), 0, pattern(64, 1)).ok());
  EXPECT_EQ(read(*client_, reading, 0, 64), pattern(64, 1));
}

TEST_P(BrickData, AForgedHandleIsRefused) {
  start_mapped(2);
  Handle forged = handles_.front();
  forged.remote_key ^= 0x5a5a5a5a;
  EXPECT_TRUE(is_dead_handle(write(*client_, forged, 0, pattern(64, 1))));
  forged = handles_.front();
  forged.remote_address += 1ull << 40;
  EXPECT_TRUE(is_dead_handle(write(*client_, forged, 0, pattern(64, 1))));
  forged = handles_.front();
  forged.blocks.count = 1000;
  EXPECT_TRUE(is_dead_handle(write(*client_, forged, 900 * kBlockBytes, pattern(64, 1))));
  EXPECT_TRUE(write(*client_, handles_.front(), 0, pattern(64, 2)).ok());
}

TEST_P(BrickData, HandlesLiveBySelfUntilAnyOfTheirBlocksIsUnmapped) {
  start_mapped(4);
  const Handle single = map_one(*client_, 3);
  const Handle again = map_one(*client_, 3, Access::kRead);
  ASSERT_TRUE(client_->unmap(blocks(2)).ok());
  for (const Handle& handle : handles_) {
    const bool covered = handle.blocks.start <= block_number(2) && block_number(2) < handle.blocks.end();
    EXPECT_EQ(is_dead_handle(write(*client_, handle, 0, pattern(64, 1))), covered);
  }
  EXPECT_TRUE(write(*client_, single, 0, pattern(64, 2)).ok());
  EXPECT_EQ(read(*client_, again, 0, 64), pattern(64, 2));
  ASSERT_TRUE(client_->unmap(blocks(3)).ok());
  EXPECT_TRUE(is_dead_handle(write(*client_, single, 0, pattern(64, 3))));
  EXPECT_EQ(read(*client_, map_one(*client_, 3), 0, 64), pattern(64, 2));
}

TEST_P(BrickData, FreeAndCloseKillHandles) {
  start_mapped(2);
  const Handle first = map_one(*client_, 0);
  const Handle second = map_one(*client_, 1);
  ASSERT_TRUE(client_->free(blocks(0)).ok());
  EXPECT_TRUE(is_dead_handle(write(*client_, first, 0, pattern(64, 1))));
  ASSERT_TRUE(client_->alloc(blocks(0)).ok());
  EXPECT_TRUE(is_dead_handle(write(*client_, first, 0, pattern(64, 1))));
  EXPECT_TRUE(write(*client_, second, 0, pattern(64, 1)).ok());
  ASSERT_TRUE(client_->close().ok());
  EXPECT_EQ(write(*client_, second, 0, pattern(64, 2)).code(), ENOTCONN);
  ASSERT_TRUE(client_->open(request(1), nullptr).ok());
  EXPECT_TRUE(is_dead_handle(write(*client_, second, 0, pattern(64, 2))));
  ASSERT_TRUE(client_->open(request(1), nullptr).ok());
  EXPECT_EQ(read(*client_, map_one(*client_, 1), 0, 64), pattern(64, 1));
}

TEST_P(BrickData, WrittenBytesStayOverUnmapWithoutACommit) {
  start(2, 8);
  client_ = open(1);
  const uint64_t count = capacity();
  ASSERT_TRUE(client_->alloc(blocks(0, count)).ok());
  for (uint64_t i = 0; i < count; ++i) {
    ASSERT_TRUE(write(*client_, map_one(*client_, i), 4090, pattern(100'000, static_cast<unsigned>(i))).ok());
    ASSERT_TRUE(client_->unmap(blocks(i)).ok());
  }
  for (uint64_t i = 0; i < count; ++i) {
    const Handle handle = map_one(*client_, i, Access::kRead);
    EXPECT_EQ(read(*client_, handle, 4090, 100'000), pattern(100'000, static_cast<unsigned>(i)));
    EXPECT_EQ(read(*client_, handle, 0, 4090), std::vector<std::byte>(4090));
    ASSERT_TRUE(client_->unmap(blocks(i)).ok());
  }
}

TEST_P(BrickData, ManyThreadsSubmitAtOnce) {
  start_mapped(4);
  std::vector<std::thread> threads;
  for (unsigned thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      const Handle handle = map_one(*client_, thread);
      for (unsigned round = 0; round < 50; ++round) {
        const uint64_t offset = round * 8192;
        ASSERT_TRUE(write(*client_, handle, offset, pattern(8192, 100 * thread + round)).ok());
        ASSERT_EQ(read(*client_, handle, offset, 8192), pattern(8192, 100 * thread + round));
        const CommitRange range{thread * kBlockBytes + offset, 8192, false};
        if (round % 10 == 0) {
          ASSERT_TRUE(client_->commit({&range, 1}).ok());
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// The promise of unmap: when it has returned, nothing lands through the old handle.
TEST_P(BrickData, NothingLandsAfterUnmapHasReturned) {
  start_mapped(1);
  for (unsigned round = 0; round < 20; ++round) {
    const Handle handle = map_one(*client_, 0);
    std::atomic<bool> writing = false;
    std::thread writer([&] {
      while (write(*client_, handle, 0, pattern(65536, round)).ok()) writing = true;
    });
    ASSERT_TRUE(eventually([&] { return writing.load(); }));
    ASSERT_TRUE(client_->unmap(blocks(0)).ok());
    const Handle fresh = map_one(*client_, 0);
    ASSERT_TRUE(write(*client_, fresh, 0, std::vector<std::byte>(65536)).ok());
    writer.join();
    EXPECT_EQ(read(*client_, fresh, 0, 65536), std::vector<std::byte>(65536));
    ASSERT_TRUE(client_->unmap(blocks(0)).ok());
  }
}

}  // namespace
}  // namespace brickfs::testing
