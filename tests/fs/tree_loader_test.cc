// SPDX-License-Identifier: Apache-2.0
#include "fs/recovery/tree_loader.h"

#include <dirent.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "fs/persistence/tree_scan.h"

namespace brickfs {
namespace {

constexpr uint32_t kDirectoryMode = S_IFDIR | 0755;
constexpr uint32_t kFileMode = S_IFREG | 0644;

InodeRow inode_row(uint64_t ino, uint32_t mode, uint64_t parent = 0) {
  InodeRow row;
  row.ino = Ino{ino};
  row.parent = Ino{parent};
  row.mode = mode;
  row.nlink = S_ISDIR(mode) ? 2 : 1;
  return row;
}

DirentRow dirent_row(uint64_t directory, std::string_view name, uint64_t ino, uint8_t type, uint64_t cookie) {
  return {Ino{directory}, name, Ino{ino}, type, cookie};
}

class TreeLoaderTest : public ::testing::Test {
 protected:
  void load(const Transaction& rows) { ASSERT_TRUE(decode_rows(rows.bytes(), loader_).ok()); }
  void load_root() {
    Transaction rows;
    rows.put(inode_row(1, kDirectoryMode, 1));
    load(rows);
  }
  bool finish() {
    loader_.end_rows();
    return loader_.judge(findings_);
  }

  InodeTable inodes_;
  TreeLoader loader_{inodes_};
  Findings findings_;
};

TEST_F(TreeLoaderTest, BuildsWhatRowsSay) {
  load_root();
  Transaction rows;
  rows.put(inode_row(5, kFileMode));
  rows.put(dirent_row(1, "file", 5, DT_REG, 3));
  rows.put(ExtentRow{Ino{5}, 0, 4, 512, false});
  rows.put(ExtentRow{Ino{5}, 2, 1, 700, true});
  const std::byte value[] = {std::byte{7}};
  rows.put(XattrRow{Ino{5}, "user.a", value});
  InodeRow link = inode_row(6, S_IFLNK | 0777);
  link.symlink_target = "file";
  rows.put(link);
  rows.put(dirent_row(1, "link", 6, DT_LNK, 4));
  load(rows);
  ASSERT_TRUE(finish());
  EXPECT_FALSE(findings_.damaged()) << findings_.first_damage();
  EXPECT_EQ(inodes_.find(kRootIno)->directory->find("file")->ino, Ino{5});
  EXPECT_EQ(inodes_.find(Ino{5})->extents->at_or_after(2), (Extent{2, 1, 700, true}));
  EXPECT_EQ(inodes_.find(Ino{5})->xattrs->at("user.a").size(), 1u);
  EXPECT_EQ(*inodes_.find(Ino{6})->symlink_target, "file");
  EXPECT_GE(raw(inodes_.next_number()), 7u);
}

TEST_F(TreeLoaderTest, RowsOfWhatIsGoneDoNoHarm) {
  load_root();
  Transaction rows;
  rows.erase_dirent(Ino{9}, "x");
  rows.erase_dirent(kRootIno, "x");
  rows.erase_extents(Ino{9}, 0, 10);
  rows.erase_xattr(Ino{9}, "user.x");
  rows.erase_orphan(Ino{9});
  // An inode that the checkpoint did not see any more: its life is in the journal.
  rows.put(ExtentRow{Ino{12}, 0, 1, 600, false});
  rows.put_orphan(Ino{12});
  rows.put(inode_row(12, kFileMode));
  rows.erase_inode(Ino{12});
  load(rows);
  ASSERT_TRUE(finish());
  EXPECT_FALSE(findings_.damaged()) << findings_.first_damage();
  EXPECT_EQ(inodes_.size(), 1u);
}

TEST_F(TreeLoaderTest, NumbersOfErasedInodesAreNotGivenAgain) {
  load_root();
  Transaction rows;
  rows.erase_inode(Ino{900});
  load(rows);
  ASSERT_TRUE(finish());
  EXPECT_GT(raw(*inodes_.new_number()), 900u);
}

TEST_F(TreeLoaderTest, WithoutRootNothingIsServed) { EXPECT_FALSE(finish()); }

TEST_F(TreeLoaderTest, EntryOfMissingInodeIsDamage) {
  load_root();
  Transaction rows;
  rows.put(dirent_row(1, "ghost", 44, DT_REG, 3));
  load(rows);
  ASSERT_TRUE(finish());
  ASSERT_EQ(findings_.damages(), 1u);
  EXPECT_NE(findings_.first_damage().find("ghost"), std::string::npos);
}

TEST_F(TreeLoaderTest, EntryOfOtherTypeIsDamage) {
  load_root();
  Transaction rows;
  rows.put(inode_row(5, kFileMode));
  rows.put(dirent_row(1, "file", 5, DT_DIR, 3));
  load(rows);
  ASSERT_TRUE(finish());
  EXPECT_EQ(findings_.damages(), 1u);
}

TEST_F(TreeLoaderTest, PartsWithoutTheirInodeAreDamageAndTakenOut) {
  load_root();
  Transaction rows;
  rows.put(ExtentRow{Ino{5}, 0, 1, 600, false});
  load(rows);
  ASSERT_TRUE(finish());
  EXPECT_EQ(findings_.damages(), 1u);
  EXPECT_EQ(inodes_.find(Ino{5}), nullptr);
}

std::vector<std::byte> dump(InodeTable& inodes) {
  Transaction rows;
  TreeScan scan(inodes);
  while (scan.next(rows, 1 << 20)) {
  }
  return {rows.bytes().begin(), rows.bytes().end()};
}

// Scans a tree while it changes, loads the scan, replays the changes: the result must be the tree.
TEST(TreeScan, FuzzyScanAndReplayConverge) {
  constexpr uint64_t kFiles = 5000;
  InodeTable live;
  TreeLoader builder(live);
  Transaction rows;
  rows.put(inode_row(1, kDirectoryMode, 1));
  for (uint64_t i = 0; i < kFiles; ++i) {
    rows.put(inode_row(10 + i, kFileMode));
    rows.put(dirent_row(1, "f" + std::to_string(i), 10 + i, DT_REG, 3 + i));
    rows.put(ExtentRow{Ino{10 + i}, 0, 1, 512 + i, false});
  }
  ASSERT_TRUE(decode_rows(rows.bytes(), builder).ok());

  live.raise_next(Ino{20100});  // some of the inodes made meanwhile are scanned, the others left to the journal
  std::vector<std::byte> journal;
  Transaction checkpoint;
  TreeScan scan(live);
  for (uint64_t step = 0; scan.next(checkpoint, 4000); ++step) {
    const uint64_t gone = step * 37 % kFiles;
    const uint64_t made = 20000 + step;
    Transaction change;
    change.erase_dirent(kRootIno, "f" + std::to_string(gone));
    change.erase_inode(Ino{10 + gone});
    change.put(ExtentRow{Ino{made}, 0, 1, 512 + gone, false});  // the freed unit, at once
    change.put(inode_row(made, kFileMode));
    change.put(dirent_row(1, "n" + std::to_string(step), made, DT_REG, 9000 + step));
    ASSERT_TRUE(decode_rows(change.bytes(), builder).ok());
    journal.insert(journal.end(), change.bytes().begin(), change.bytes().end());
  }
  ASSERT_GT(journal.size(), 1000u);

  InodeTable replayed;
  TreeLoader loader(replayed);
  ASSERT_TRUE(decode_rows(checkpoint.bytes(), loader).ok());
  ASSERT_TRUE(decode_rows(journal, loader).ok());
  Findings findings;
  loader.end_rows();
  ASSERT_TRUE(loader.judge(findings));
  EXPECT_FALSE(findings.damaged()) << findings.first_damage();
  live.raise_next(replayed.next_number());
  EXPECT_EQ(dump(replayed), dump(live));
}

}  // namespace
}  // namespace brickfs
