// SPDX-License-Identifier: Apache-2.0
#include "transport/volume/local_keys.h"

#include <gtest/gtest.h>

#include <array>
#include <map>
#include <vector>

#include "transport/volume/transfer_round.h"

namespace brickfs {
namespace {

// A brick that gives keys from `first` on, and knows what it has registered.
struct KeyedBrick {
  explicit KeyedBrick(uint32_t first) : next(first) {}
  LocalKeys::Register registers() {
    return [this](std::span<std::byte> memory) -> Result<RegisteredMemory> {
      if (full) return Error(ENOMEM, "test");
      const uint32_t key = next++;
      registered[key] = memory.data();
      return RegisteredMemory(key, [this, key] { registered.erase(key); });
    };
  }
  uint32_t next;
  bool full = false;
  std::map<uint32_t, const std::byte*> registered;
};

class LocalKeysTest : public ::testing::Test {
 protected:
  KeyedBrick a_{100};
  KeyedBrick b_{200};
  LocalKeys keys_;
  std::array<std::byte, 4096> memory_{};
  std::array<std::byte, 4096> other_{};
};

TEST_F(LocalKeysTest, OneKeyStandsForOneOfEachBrick) {
  const auto a = keys_.attach(0, a_.registers());
  const auto b = keys_.attach(1, b_.registers());
  {
    const auto first = keys_.add(memory_);
    const auto second = keys_.add(other_);
    ASSERT_TRUE(first.ok() && second.ok());
    EXPECT_NE(first->local_key(), second->local_key());
    EXPECT_EQ(a_.registered.at(a.of(first->local_key())), memory_.data());
    EXPECT_EQ(b_.registered.at(b.of(first->local_key())), memory_.data());
    EXPECT_EQ(b_.registered.at(b.of(second->local_key())), other_.data());
    EXPECT_EQ(a.of(0), 0u);
  }
  EXPECT_TRUE(a_.registered.empty() && b_.registered.empty());
}

TEST_F(LocalKeysTest, ABrickThatComesLaterKnowsWhatIsRegistered) {
  const auto a = keys_.attach(0, a_.registers());
  const auto memory = keys_.add(memory_);
  ASSERT_TRUE(memory.ok());
  {
    const auto b = keys_.attach(0, b_.registers());
    EXPECT_EQ(b_.registered.at(b.of(memory->local_key())), memory_.data());
  }
  EXPECT_TRUE(b_.registered.empty());
  EXPECT_EQ(a_.registered.size(), 1u);
  b_.full = true;  // its bytes are copied
  const auto again = keys_.attach(0, b_.registers());
  EXPECT_EQ(again.of(memory->local_key()), 0u);
  EXPECT_EQ(keys_.add(other_).code(), ENOMEM);
  EXPECT_EQ(a_.registered.size(), 1u);
}

TEST_F(LocalKeysTest, MemoryOfAPlaceIsRegisteredThere) {
  const auto a = keys_.attach(0, a_.registers());
  const auto b = keys_.attach(1, b_.registers());
  const auto memory = keys_.add(memory_, 1);
  ASSERT_TRUE(memory.ok());
  EXPECT_TRUE(a_.registered.empty());
  EXPECT_EQ(a.of(memory->local_key()), 0u);
  const auto later = keys_.attach(0, a_.registers());
  EXPECT_TRUE(a_.registered.empty());
  EXPECT_EQ(b_.registered.at(b.of(memory->local_key())), memory_.data());
}

TEST_F(LocalKeysTest, BricksWithoutKeysNeedNone) {
  const auto a = keys_.attach(0, [](std::span<std::byte>) { return RegisteredMemory(); });
  const auto memory = keys_.add(memory_);
  ASSERT_TRUE(memory.ok());
  EXPECT_EQ(memory->local_key(), 0u);
}

// A piece carries the volume's key; what is posted has the brick's.
TEST_F(LocalKeysTest, ATransferHasTheBricksKey) {
  const auto a = keys_.attach(0, a_.registers());
  const auto b = keys_.attach(1, b_.registers());
  const auto memory = keys_.add(memory_);
  ASSERT_TRUE(memory.ok());
  const Piece piece{0, {{memory_.data(), 4096, memory->local_key()}, {other_.data(), 512, 0}}};
  for (const auto* const own : {&a, &b}) {
    HandleCache handles;
    TransferRound round(std::span(&piece, 1), Direction::kRead, *own);
    const Handle handle{.blocks = {BlockAddress{0}, 1}, .access = Access::kRead};
    auto claim = handles.claim_missing(BlockAddress{0}, 1, Access::kRead);
    auto lease = handles.insert(std::move(claim), std::span(&handle, 1), Access::kRead, BlockAddress{0});
    ASSERT_TRUE(lease.ok());
    round.add(std::move(*lease));
    const Batch& batch = round.batch();
    ASSERT_EQ(batch.transfers.size(), 1u);
    ASSERT_EQ(batch.transfers[0].local.size(), 2u);
    EXPECT_EQ(batch.transfers[0].local[0].local_key, own->of(memory->local_key()));
    EXPECT_EQ(batch.transfers[0].local[1].local_key, 0u);
    round.restart();
  }
}

}  // namespace
}  // namespace brickfs
