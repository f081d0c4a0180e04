// SPDX-License-Identifier: Apache-2.0
// What the suites on the contract of transport/brick/brick.h share: a brick of the kind under test, clients on it, and
// short ways to move bytes.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/block_numbers.h"
#include "tests/support/brick_factory.h"
#include "tests/support/eventually.h"
#include "transport/brick/brick.h"

namespace brickfs::testing {

inline std::vector<std::byte> pattern(size_t size, unsigned seed) {
  std::vector<std::byte> bytes(size);
  for (size_t i = 0; i < size; ++i) {
    seed = seed * 1664525u + 1013904223u;
    bytes[i] = static_cast<std::byte>(seed >> 24);
  }
  return bytes;
}

// One transfer of all of `bytes`, waited for.
inline Status transfer(Brick& brick, Direction direction, const Handle& handle, uint64_t offset,
                       std::span<std::byte> bytes) {
  const LocalSlice slice{bytes.data(), static_cast<uint32_t>(bytes.size()), 0};
  Batch batch;
  batch.transfers.push_back({direction, handle, offset, {&slice, 1}});
  brick.submit(batch);
  return brick.wait(batch);
}

inline Status write(Brick& brick, const Handle& handle, uint64_t offset, std::vector<std::byte> bytes) {
  return transfer(brick, Direction::kWrite, handle, offset, bytes);
}

inline std::vector<std::byte> read(Brick& brick, const Handle& handle, uint64_t offset, size_t size) {
  std::vector<std::byte> bytes(size, std::byte{0xEE});
  const Status status = transfer(brick, Direction::kRead, handle, offset, bytes);
  EXPECT_EQ(status.code(), 0);
  return bytes;
}

inline bool is_dead_handle(const Status& status) {
  return status.code() == EACCES || status.code() == ENOENT || status.code() == EIO;
}
// What a fenced client may see: the fencing, or the connection that was cut.
inline bool is_lost_session(int code) { return code == ESTALE || code == ENOTCONN; }

class BrickContract : public ::testing::TestWithParam<BrickKind> {
 protected:
  void start(uint64_t memory_blocks, uint64_t capacity_blocks, std::vector<VolumeSpec> volumes = {}) {
    brick_ = GetParam().make(memory_blocks, capacity_blocks, std::move(volumes));
    capacity_ = durable() ? capacity_blocks : memory_blocks;
  }
  bool durable() const { return GetParam().durability == Durability::kDurable; }
  uint64_t capacity() const { return capacity_; }
  TestBrick& brick() { return *brick_; }
  std::unique_ptr<Brick> connect() { return brick_->connect(); }

  static OpenRequest request(uint64_t client, OpenMode mode = OpenMode::kExclusive) {
    OpenRequest request;
    request.client = ClientId{client};
    request.client_name = "client " + std::to_string(client);
    request.mode = mode;
    return request;
  }
  // A client with an open session. Throws: the test has failed, and the next one goes on.
  std::unique_ptr<Brick> open(const OpenRequest& request, Session* session = nullptr) {
    auto client = connect();
    const auto opened = client->open(request, nullptr);
    if (!opened.ok()) throw std::runtime_error("no session: " + describe(opened.error()));
    if (session != nullptr) *session = *opened;
    return client;
  }
  std::unique_ptr<Brick> open(uint64_t client, Session* session = nullptr) { return open(request(client), session); }
  // The same for one whose predecessor's connection has just gone, which the brick may not have noticed yet.
  std::unique_ptr<Brick> open_after_loss(const OpenRequest& request, Session* session = nullptr) {
    auto client = connect();
    int code = 0;
    eventually([&] {
      const auto opened = client->open(request, nullptr);
      code = opened.code();
      if (opened.ok() && session != nullptr) *session = *opened;
      return code != EBUSY;
    });
    if (code != 0) throw std::runtime_error("no session: errno " + std::to_string(code));
    return client;
  }
  static Handle map_one(Brick& client, uint64_t number, Access access = Access::kReadWrite) {
    const auto handles = client.map(blocks(number), access);
    EXPECT_EQ(handles.code(), 0);
    return handles.ok() ? handles->front() : Handle{};
  }
  static std::vector<BlockRange> list_all(Brick& client) {
    std::vector<BlockRange> all;
    std::optional<BlockAddress> cursor = BlockAddress{0};
    while (cursor) {
      const auto page = client.list(*cursor);
      EXPECT_EQ(page.code(), 0);
      if (!page.ok()) break;
      all.insert(all.end(), page->extents.begin(), page->extents.end());
      cursor = page->cursor;
    }
    return all;
  }

 private:
  std::unique_ptr<TestBrick> brick_;
  uint64_t capacity_ = 0;
};

}  // namespace brickfs::testing

#define BRICK_CONTRACT_FOR_EVERY_KIND(Suite)                                                     \
  INSTANTIATE_TEST_SUITE_P(Every, Suite, ::testing::ValuesIn(::brickfs::testing::brick_kinds()), \
                           [](const auto& info) { return std::string(info.param.name); })
