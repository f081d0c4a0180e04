// SPDX-License-Identifier: Apache-2.0
#include "fs/inode/inode_table.h"

#include <gtest/gtest.h>
#include <malloc.h>

#include <atomic>
#include <random>
#include <set>
#include <thread>

namespace brickfs {
namespace {

Inode* add(InodeTable& table, uint64_t number) { return table.insert(std::make_unique<Inode>(Ino{number})); }

TEST(InodeTable, FindsWhatIsThere) {
  InodeTable table;
  Inode* inode = add(table, 5);
  EXPECT_EQ(table.find(Ino{5}), inode);
  EXPECT_EQ(table.find(Ino{6}), nullptr);
  EXPECT_EQ(table.find(Ino{5 + 64 * 64}), nullptr);
  table.erase(Ino{5});
  EXPECT_EQ(table.find(Ino{5}), nullptr);
  EXPECT_EQ(table.size(), 0u);
  table.erase(Ino{5});
  EXPECT_EQ(table.size(), 0u);
}

TEST(InodeTable, NumbersGrowAndNeverRepeat) {
  InodeTable table;
  const Ino first = *table.new_number();
  EXPECT_GT(raw(first), raw(kRootIno));
  table.raise_next(Ino{100});
  EXPECT_EQ(*table.new_number(), Ino{100});
  table.raise_next(Ino{50});
  EXPECT_EQ(*table.new_number(), Ino{101});
}

TEST(InodeTable, NumbersComeInOrderInPieces) {
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  InodeTable table;
  std::set<Ino> model;
  for (int i = 0; i < 5000; ++i) {
    const uint64_t number = 1 + random() % (i % 2 == 0 ? 3000 : 10'000'000'000);
    if (model.insert(Ino{number}).second) add(table, number);
  }
  for (int i = 0; i < 1000; ++i) {
    const Ino number = *std::next(model.begin(), static_cast<int64_t>(random() % 100));
    model.erase(number);
    table.erase(number);
  }
  EXPECT_EQ(table.size(), model.size());
  for (const size_t most : {1u, 7u, 64u, 100'000u}) {
    std::vector<Ino> all;
    Ino from = kNoIno;
    for (std::vector<Ino> some; !(some = table.numbers_from(from, most)).empty(); from = Ino{raw(some.back()) + 1}) {
      ASSERT_LE(some.size(), most);
      all.insert(all.end(), some.begin(), some.end());
    }
    EXPECT_EQ(all, std::vector<Ino>(model.begin(), model.end())) << "pieces of " << most;
  }
}

TEST(InodeLocks, ExclusiveOnesKeepOthersOut) {
  InodeTable table;
  constexpr int kRounds = 2000;
  constexpr uint64_t kInodes = 4;
  std::array<int64_t, kInodes> values{};  // each guarded by the lock of its number
  const auto work = [&](uint64_t seed) {
    std::mt19937_64 random(seed);
    for (int i = 0; i < kRounds; ++i) {
      const Ino from{random() % kInodes + 1};
      const Ino to{random() % kInodes + 1};
      const InodeLocks locks(table, {from, kNoIno, to}, InodeLocks::Mode::kExclusive);
      --values[raw(from) - 1];
      ++values[raw(to) - 1];
    }
  };
  std::atomic<bool> ended{false};
  std::thread reader([&] {
    while (!ended) {
      const InodeLocks locks(table, {Ino{4}, Ino{3}, Ino{2}, Ino{1}}, InodeLocks::Mode::kShared);
      EXPECT_EQ(values[0] + values[1] + values[2] + values[3], 0);
    }
  });
  std::thread one(work, 1);
  std::thread two(work, 2);
  one.join();
  two.join();
  ended = true;
  reader.join();
}

TEST(InodeLocks, TwoInodesOfOneStripeAreLockedOnce) {
  InodeTable table;
  const InodeLocks locks(table, {Ino{1}, Ino{1 + InodeTable::kStripes}, Ino{1}}, InodeLocks::Mode::kExclusive);
  SUCCEED();  // else it would wait for itself
}

size_t heap_bytes() {
  const struct mallinfo2 info = mallinfo2();  // zeros under a sanitizer
  return info.uordblks + info.hblkhd;
}

// What a volume of 10,000,000 files rests on: inode, place in the table, one extent, one entry.
TEST(Inode, FileTakesLessThan300Bytes) {
  constexpr size_t kFiles = 100'000;
  constexpr size_t kFilesPerDirectory = 100;
  const size_t before = heap_bytes();
  InodeTable table;
  Inode* folder = nullptr;
  for (size_t i = 0; i < kFiles; ++i) {
    if (i % kFilesPerDirectory == 0) {
      folder = add(table, raw(*table.new_number()));
      folder->directory = std::make_unique<Directory>();
    }
    Inode* file = add(table, raw(*table.new_number()));
    file->extents = std::make_unique<ExtentMap>();
    file->extents->map({0, 1, i, false}, nullptr);
    folder->directory->insert("file-name-" + std::to_string(i), file->ino, DT_REG);
  }
  EXPECT_LT((heap_bytes() - before) / kFiles, 300u);
}

}  // namespace
}  // namespace brickfs
