// SPDX-License-Identifier: Apache-2.0
#include "fs/recovery/reconcile.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <memory>
#include <vector>

#include "tests/support/block_numbers.h"

namespace brickfs {
namespace {

using testing::blocks;

class ReconcileTest : public ::testing::Test {
 protected:
  void add_file(uint64_t ino, std::vector<Extent> extents) {
    auto inode = std::make_unique<Inode>(Ino{ino});
    inode->mode = S_IFREG | 0644;
    inode->extents = std::make_unique<ExtentMap>();
    for (const Extent& extent : extents) inode->extents->map(extent, nullptr);
    inodes_.insert(std::move(inode));
  }
  Reconciliation run(std::vector<BlockRange> listed) { return reconcile(inodes_, metadata_, listed, findings_); }

  InodeTable inodes_;
  Findings findings_;
  std::vector<MetadataBlocks> metadata_{{blocks(0, 1), "superblock"}, {blocks(2, 1), "journal"}};
};

TEST_F(ReconcileTest, WhatIsUsedStaysAndTheRestIsLeaked) {
  add_file(5, {{0, 1, 4 * kUnitsPerBlock + 7, false}, {1, 3 * kUnitsPerBlock, 5 * kUnitsPerBlock, false}});
  const Reconciliation result = run({blocks(0, 12), blocks(20, 2)});
  EXPECT_FALSE(findings_.damaged()) << findings_.first_damage();
  EXPECT_EQ(result.kept, (std::vector{blocks(0, 1), blocks(2, 1), blocks(4, 4)}));
  EXPECT_EQ(result.leaked, (std::vector{blocks(1, 1), blocks(3, 1), blocks(8, 4), blocks(20, 2)}));
  EXPECT_EQ(count_blocks(result.leaked), 8u);
}

TEST_F(ReconcileTest, UsedButNotListedIsDamage) {
  add_file(5, {{0, 2 * kUnitsPerBlock, 4 * kUnitsPerBlock, false}});
  const Reconciliation result = run({blocks(0, 1), blocks(2, 1), blocks(4, 1)});
  ASSERT_EQ(findings_.damages(), 1u);
  EXPECT_EQ(findings_.kept()[0].address, 5 * kBlockBytes);
  EXPECT_EQ(findings_.kept()[0].ino, Ino{5});
  EXPECT_EQ(count_blocks(result.kept), 3u);
}

TEST_F(ReconcileTest, UnitUsedTwiceIsDamage) {
  add_file(5, {{0, 10, 4 * kUnitsPerBlock, false}});
  add_file(6, {{0, 1, 4 * kUnitsPerBlock + 9, false}});
  run({blocks(0, 5)});
  ASSERT_EQ(findings_.damages(), 1u);
  EXPECT_NE(findings_.first_damage().find("inode 5"), std::string::npos);
  EXPECT_NE(findings_.first_damage().find("inode 6"), std::string::npos);
}

TEST_F(ReconcileTest, FileOnTheJournalIsDamage) {
  add_file(5, {{0, 1, 2 * kUnitsPerBlock + 3, false}});
  run({blocks(0, 5)});
  ASSERT_EQ(findings_.damages(), 1u);
  EXPECT_NE(findings_.first_damage().find("journal"), std::string::npos);
}

TEST(Subtract, CutsRanges) {
  const std::vector<BlockRange> from{blocks(0, 10), blocks(20, 5)};
  EXPECT_EQ(subtract(from, std::vector{blocks(0, 1), blocks(3, 2), blocks(9, 13), blocks(30, 1)}),
            (std::vector{blocks(1, 2), blocks(5, 4), blocks(22, 3)}));
  EXPECT_EQ(subtract(from, {}), from);
  EXPECT_TRUE(subtract(from, std::vector{blocks(0, 40)}).empty());
}

}  // namespace
}  // namespace brickfs
