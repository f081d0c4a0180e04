// SPDX-License-Identifier: Apache-2.0
#include "transport/onesided/handle_map.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "tests/support/block_numbers.h"
#include "transport/base/bytes.h"

namespace brickfs::onesided {
namespace {

using testing::blocks;

// As a brick answers that has mapped the range as one run.
Handle add(HandleMap& map, BlockRange range, uint32_t id, uint64_t address = 1, Access access = Access::kReadWrite) {
  calls::QueuePairKeys keys{};
  keys[0] = id;
  const auto mapped = map.add({{Handle{range, access, address, id}}, {keys}});
  EXPECT_TRUE(mapped.ok() && mapped->handles.size() == 1);
  return mapped->handles.front();
}

TEST(HandleMap, WhatIsHandedOutIsFoundAndNothingElse) {
  HandleMap map;
  const Handle handle = add(map, blocks(3, 2), 7);
  Mapping* const mapping = map.use(handle);
  ASSERT_NE(mapping, nullptr);
  EXPECT_EQ(mapping->keys[0].load(), 7u);
  EXPECT_EQ(mapping->users.load(), 1u);
  HandleMap::release(*mapping);

  std::vector<Handle> forged(6, handle);
  forged[0].remote_key = 0;
  forged[1].remote_key += 1;
  forged[2].remote_key += 1u << 31;
  forged[3].remote_address += kBlockBytes;
  forged[4].blocks.count += 1;
  forged[5].access = Access::kRead;
  for (const Handle& other : forged) EXPECT_EQ(map.use(other), nullptr);
  EXPECT_EQ(mapping->users.load(), 0u);
}

TEST(HandleMap, WhatIsTakenOutIsNotFoundUntilItIsPutBack) {
  HandleMap map;
  const Handle first = add(map, blocks(0, 4), 1);
  const Handle same = add(map, blocks(2, 1), 2);
  const Handle other = add(map, blocks(4, 1), 3);
  const auto taken = map.take_out(blocks(3, 1));
  ASSERT_EQ(taken.size(), 1u);
  EXPECT_EQ(map.use(first), nullptr);
  EXPECT_NE(map.use(same), nullptr);
  EXPECT_NE(map.use(other), nullptr);
  map.put_back(taken);
  EXPECT_NE(map.use(first), nullptr);
}

TEST(HandleMap, AForgottenHandleIsRefusedThoughItsPlaceIsTakenAnew) {
  HandleMap map;
  const Handle handle = add(map, blocks(0, 1), 1);
  for (uint32_t id = 2; id < 5'000; ++id) {
    map.forget(map.take_out(blocks(0, 1)));
    const Handle next = add(map, blocks(0, 1), id);
    ASSERT_NE(next.remote_key, 0u);
    // The number above the place comes back after 4,095 turns, and so does the handle.
    ASSERT_TRUE(next.remote_key == handle.remote_key || map.use(handle) == nullptr);
    Mapping* const mapping = map.use(next);
    ASSERT_NE(mapping, nullptr);
    EXPECT_EQ(mapping->keys[0].load(), id);
    HandleMap::release(*mapping);
  }
}

TEST(HandleMap, KeysOfALaterQueuePairReachWhatIsMapped) {
  HandleMap map;
  const Handle handle = add(map, blocks(0, 1), 5);
  const std::vector<calls::KeyRecord> keys = {{4, 40}, {5, 50}};
  map.add_keys({3, 0}, keys);
  EXPECT_EQ(map.use(handle)->keys[3].load(), 50u);
}

// The brick has answered MAP before the queue pair was there, and the answer comes after the queue pair's keys.
TEST(HandleMap, KeysOfALaterQueuePairReachWhatIsBeingMapped) {
  HandleMap map;
  const std::vector<calls::KeyRecord> first = {{5, 50}};
  const std::vector<calls::KeyRecord> second = {{6, 60}};
  map.add_keys({3, 0}, first);
  map.add_keys({3, 5}, second);
  EXPECT_EQ(map.use(add(map, blocks(0, 1), 5))->keys[3].load(), 50u);
  EXPECT_EQ(map.use(add(map, blocks(1, 1), 6))->keys[3].load(), 60u);
}

TEST(HandleMap, KeysOfAQueuePairThatIsNoMoreReachNothing) {
  HandleMap map;
  const std::vector<calls::KeyRecord> keys = {{5, 50}};
  map.add_keys({3, 0}, keys);
  map.add_keys({3, 0}, {});
  EXPECT_EQ(map.use(add(map, blocks(0, 1), 5))->keys[3].load(), 0u);
}

TEST(HandleMap, KeysOfALaterQueuePairReachWhatIsTakenOut) {
  HandleMap map;
  const Handle handle = add(map, blocks(0, 1), 5);
  const auto taken = map.take_out(blocks(0, 1));
  EXPECT_TRUE(map.take_out(blocks(0, 1)).empty()) << "by two";
  const std::vector<calls::KeyRecord> keys = {{5, 50}};
  map.add_keys({3, 0}, keys);
  map.put_back(taken);
  EXPECT_EQ(map.use(handle)->keys[3].load(), 50u);
}

TEST(HandleMap, ANumberThatIsThereAlreadyIsNonsense) {
  HandleMap map;
  add(map, blocks(0, 1), 5);
  const Handle same{blocks(1, 1), Access::kRead, 1, 5};
  EXPECT_EQ(map.add({{same}, {calls::QueuePairKeys{}}}).code(), EPROTO);
}

TEST(HandleMap, AHandleWithoutKeysOrNumberIsNonsense) {
  HandleMap map;
  EXPECT_EQ(map.add({{Handle{blocks(0, 1), Access::kRead, 1, 5}}, {}}).code(), EPROTO);
  EXPECT_EQ(map.add({{Handle{blocks(0, 1), Access::kRead, 1, 0}}, {calls::QueuePairKeys{}}}).code(), EPROTO);
}

// What is in use never becomes another's: whoever unmaps waits for the users that it sees, and nobody comes after.
TEST(HandleMap, NobodyUsesWhatIsMadeAnew) {
  constexpr uint32_t kTurns = 20'000;
  HandleMap map;
  std::atomic<bool> over{false};
  std::atomic<uint64_t> used{0};
  std::atomic<uint64_t> wrong{0};
  Mutex mutex;
  Handle current = add(map, blocks(0, 1), 1, 1);
  std::vector<std::thread> users;
  for (int i = 0; i < 3; ++i) {
    users.emplace_back([&] {
      Handle handle;
      for (uint64_t turn = 0; !over; ++turn) {
        if (turn % 4 == 0) {  // else the one of before, which may be gone
          MutexLock lock(mutex);
          handle = current;
        }
        Mapping* const mapping = map.use(handle);
        if (mapping == nullptr) continue;
        if (mapping->handle.remote_address != handle.remote_address || mapping->keys[0] != handle.remote_address)
          ++wrong;
        ++used;
        HandleMap::release(*mapping);
      }
    });
  }
  while (used.load() == 0) std::this_thread::yield();  // on a busy machine the turns could be over before
  for (uint32_t turn = 2; turn < kTurns; ++turn) {
    const auto taken = map.take_out(blocks(0, 1));
    for (const Mapping* const mapping : taken) {
      while (mapping->users.load() != 0) std::this_thread::yield();
    }
    map.forget(taken);
    const Handle next = add(map, blocks(0, 1), turn, turn);
    MutexLock lock(mutex);
    current = next;
  }
  over = true;
  for (std::thread& user : users) user.join();
  EXPECT_EQ(wrong.load(), 0u);
}

}  // namespace
}  // namespace brickfs::onesided
