// SPDX-License-Identifier: Apache-2.0
#include "fs/recovery/check.h"

#include <dirent.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <memory>

#include "fs/operations/filesystem.h"
#include "fs/recovery/serving_rules.h"
#include "fs/recovery/tree_check.h"
#include "tests/support/embedded_volume.h"

namespace brickfs {
namespace {

// A small sound tree: / has the directory 2 "d" and the file 3 "f"; 3 is also d/g; 4 is unlinked and in use.
class CheckTree : public ::testing::Test {
 protected:
  CheckTree() {
    Inode& root = add(1, S_IFDIR | 0755, 3, 1);
    Inode& directory = add(2, S_IFDIR | 0755, 2, 1);
    add(3, S_IFREG | 0644, 2);
    add(4, S_IFREG | 0644, 0).orphan = true;
    root.directory->insert("d", Ino{2}, DT_DIR);
    root.directory->insert("f", Ino{3}, DT_REG);
    directory.directory->insert("g", Ino{3}, DT_REG);
  }

  Inode& add(uint64_t ino, uint32_t mode, uint32_t nlink, uint64_t parent = 0) {
    Inode& inode = *inodes_.insert(std::make_unique<Inode>(Ino{ino}));
    inode.mode = mode;
    inode.nlink = nlink;
    inode.parent = Ino{parent};
    if (inode.is_directory()) inode.directory = std::make_unique<Directory>();
    return inode;
  }
  Inode& at(uint64_t ino) { return *inodes_.find(Ino{ino}); }
  uint64_t damages() {
    Findings findings;
    judge_for_serving(inodes_, findings);
    check_tree(inodes_, {}, findings);
    return findings.damages();
  }

  InodeTable inodes_;
};

TEST_F(CheckTree, SoundTreeIsClean) { EXPECT_EQ(damages(), 0u); }

TEST_F(CheckTree, WrongLinkCountOfAFile) {
  at(3).nlink = 3;
  EXPECT_EQ(damages(), 1u);
}

TEST_F(CheckTree, WrongLinkCountOfADirectory) {
  at(1).nlink = 2;
  EXPECT_EQ(damages(), 1u);
}

TEST_F(CheckTree, FileWithoutAName) {
  add(9, S_IFREG | 0644, 1);
  EXPECT_EQ(damages(), 1u);
}

TEST_F(CheckTree, FileThatWasForgotten) {
  add(9, S_IFREG | 0644, 0);
  EXPECT_EQ(damages(), 1u);
}

TEST_F(CheckTree, OrphanWithAName) {
  at(3).orphan = true;
  EXPECT_GE(damages(), 1u);
}

TEST_F(CheckTree, DirectoryWithAnotherParent) {
  at(2).parent = Ino{7};
  EXPECT_EQ(damages(), 1u);
}

TEST_F(CheckTree, DirectoryUnderTwoNames) {
  at(2).directory->insert("self", Ino{2}, DT_DIR);
  EXPECT_GE(damages(), 1u);
}

TEST_F(CheckTree, LoopThatTheRootDoesNotReach) {
  add(10, S_IFDIR | 0755, 3, 11).directory->insert("a", Ino{11}, DT_DIR);
  add(11, S_IFDIR | 0755, 3, 10).directory->insert("b", Ino{10}, DT_DIR);
  EXPECT_EQ(damages(), 2u);
}

TEST_F(CheckTree, SizeBeyondTheLimit) {
  at(3).size_bytes = uint64_t{1} << 63;
  EXPECT_EQ(damages(), 1u);
}

TEST_F(CheckTree, LinkTargetOfAnotherLength) {
  Inode& link = add(5, S_IFLNK | 0777, 1);
  link.symlink_target = std::make_unique<std::string>("where");
  link.size_bytes = 4;
  at(1).directory->insert("l", Ino{5}, DT_LNK);
  EXPECT_EQ(damages(), 1u);
}

TEST_F(CheckTree, AttributesBeyondTheLimit) {
  at(3).xattrs = std::make_unique<Xattrs>();
  (*at(3).xattrs)["user.big"].resize(100'000);
  EXPECT_EQ(damages(), 1u);
}

TEST_F(CheckTree, NamesInFindingsAreText) {
  at(1).directory->insert("a\x1b[31m\nb\xc2\x9b", Ino{77}, DT_REG);
  Findings findings;
  judge_for_serving(inodes_, findings);
  ASSERT_EQ(findings.kept().size(), 1u);
  EXPECT_NE(findings.first_damage().find("a\\x1b[31m\\x0ab\\xc2\\x9b"), std::string::npos) << findings.first_damage();
}

Result<CheckReport> check(EmbeddedVolume& volume) {
  const auto client = TRY(volume.try_open(OpenMode::kReadOnly));
  std::string why;
  return check_filesystem(*client, {}, &why);
}

TEST(Check, EmptyVolumeIsClean) {
  EmbeddedVolume volume(64 * kMiB);
  const auto report = check(volume);
  ASSERT_TRUE(report.ok());
  EXPECT_FALSE(report->has_filesystem);
  EXPECT_FALSE(report->findings.damaged());
}

TEST(Check, BlocksWithoutAFilesystemAreDamage) {
  EmbeddedVolume volume(64 * kMiB);
  ASSERT_TRUE(volume.open()->alloc({BlockAddress{kBlockBytes}, 1}).ok());
  const auto report = check(volume);
  ASSERT_TRUE(report.ok());
  EXPECT_TRUE(report->findings.damaged());
}

TEST(Check, CrashedFilesystemIsCleanAndNotTouched) {
  EmbeddedVolume volume(64 * kMiB);
  {
    std::string why;
    const auto filesystem = Filesystem::mount(volume.open(), {}, &why);
    ASSERT_TRUE(filesystem.ok()) << why;
    ASSERT_TRUE((*filesystem)->create(kRootIno, "kept", S_IFREG | 0644, {}).ok());
    ASSERT_TRUE((*filesystem)->create(kRootIno, "open", S_IFREG | 0644, {}).ok());
    ASSERT_TRUE((*filesystem)->unlink(kRootIno, "open").ok());
    ASSERT_TRUE((*filesystem)->sync_all().ok());
  }
  for (int round = 0; round < 2; ++round) {
    const auto report = check(volume);
    ASSERT_TRUE(report.ok()) << report.error().what();
    EXPECT_FALSE(report->findings.damaged()) << report->findings.first_damage();
    EXPECT_FALSE(report->unmounted);
    EXPECT_EQ(report->inodes, 3u);
    EXPECT_EQ(report->orphans, 1u);
    EXPECT_GT(report->transactions, 0u);
  }
}

TEST(Check, AnUnmountLeavesNothingToSettle) {
  EmbeddedVolume volume(64 * kMiB);
  {
    std::string why;
    const auto filesystem = Filesystem::mount(volume.open(), {}, &why);
    ASSERT_TRUE(filesystem.ok()) << why;
    ASSERT_TRUE((*filesystem)->create(kRootIno, "kept", S_IFREG | 0644, {}).ok());
    ASSERT_TRUE((*filesystem)->unmount().ok());
  }
  const auto report = check(volume);
  ASSERT_TRUE(report.ok());
  EXPECT_TRUE(report->unmounted);
  EXPECT_FALSE(report->findings.damaged()) << report->findings.first_damage();
  EXPECT_EQ(report->findings.count(Finding::Severity::kNote), 0u);
  EXPECT_EQ(report->leaked_blocks, 0u);
  EXPECT_EQ(report->transactions, 0u);
}

TEST(Check, ABlockLeftByAnUnmountIsDamage) {
  EmbeddedVolume volume(64 * kMiB);
  {
    std::string why;
    const auto filesystem = Filesystem::mount(volume.open(), {}, &why);
    ASSERT_TRUE(filesystem.ok()) << why;
    ASSERT_TRUE((*filesystem)->unmount().ok());
    const auto client = volume.open();
    ASSERT_TRUE(client->alloc({BlockAddress{500 * kBlockBytes}, 1}).ok());
    ASSERT_TRUE(client->close().ok());
  }
  const auto report = check(volume);
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(report->findings.damages(), 1u);
}

TEST(Check, HeldVolumeIsBusy) {
  EmbeddedVolume volume(64 * kMiB);
  const auto holder = volume.open();
  EXPECT_EQ(check(volume).code(), EBUSY);
}

}  // namespace
}  // namespace brickfs
